#!/usr/bin/env bash
# Show on a cluster what docs/kubernetes.md promises, and print it as a table: what was done, what was seen, and whether it is
# what Handrail relies on. Everything happens in a namespace of its own, which is deleted at the end.
#
#   deploy/kubernetes/prove.sh --image IMAGE [--namespace NAME] [--drain]
#
# IMAGE is any image with a shell, such as that of an environment. --drain also drains the node of one of its own pods, of that
# pod alone. Needs kubectl, and a person who may create namespaces. Exit status: the number of rows that do not hold.
set -uo pipefail

image='' namespace=handrail-prove drain=''
while [ $# -gt 0 ]; do
    case $1 in
    --image) image=$2; shift ;;
    --namespace) namespace=$2; shift ;;
    --drain) drain=1 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
    esac
    shift
done
[ -n "$image" ] || { echo "--image names no image with a shell" >&2; exit 64; }

k() { kubectl --namespace "$namespace" --request-timeout 30s "$@"; }
failed=0 rows=''
row() { # row WHAT SEEN yes|no|-: "-" is said and not counted
    rows+="$1|${2//$'\n'/ }|$3"$'\n'
    [ "$3" != no ] || failed=$((failed + 1))
    printf '.' >&2
}
holds() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }
has() { case $1 in *$2*) echo yes ;; *) echo no ;; esac; }
until_says() { # until_says SECONDS WANTED COMMAND...: the first output that has WANTED in it, else the last one
    local end=$((SECONDS + $1)) wanted=$2 said
    shift 2
    while :; do
        said=$("$@" 2>/dev/null || true)
        case $said in *$wanted*) break ;; esac
        [ $SECONDS -lt $end ] || break
        sleep 0.3
    done
    echo "$said"
}
path() { k get pod "$1" -o "jsonpath=$2"; }
# spec SCRIPT [FIELDS OF THE SPEC] [FIELDS OF THE CONTAINER]: of a pod as the driver makes it, that runs a shell script
spec() {
    cat <<JSON
{"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 5,
 "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}${2:+, $2},
 "containers": [{"name": "work", "image": "$image", "command": ["/bin/sh", "-c", "$1"],
  "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
  "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}${3:+, $3}}]}
JSON
}
pod() { # pod NAME SCRIPT...: as `spec`
    local name=$1
    shift
    k create -f - <<JSON
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$name", "labels": {"handrail.dev/prove": "$name"}}, "spec": $(spec "$@")}
JSON
}
printed() { # what a pod printed until its end
    until_says 60 d path "$1" '{.status.containerStatuses[0].state.terminated.reason}' >/dev/null
    k logs "$1" 2>&1
}

echo "proving $(kubectl config current-context) in the namespace $namespace" >&2
kubectl create namespace "$namespace" >/dev/null || exit 70
trap 'kubectl delete namespace "$namespace" --wait=false >/dev/null 2>&1' EXIT
kubectl label namespace "$namespace" pod-security.kubernetes.io/enforce=restricted >/dev/null
until_says 30 default k get serviceaccount default -o name >/dev/null

# -- what pods are here

pod plain 'echo up; sleep 600' >/dev/null
said=$(until_says 60 Running path plain '{.status.phase}')
row 'a pod under Pod Security restricted starts' "$said" "$(has "$said" Running)"
said=$(pod root true '"hostNetwork": true' 2>&1 | grep -o 'violates PodSecurity "[^"]*"')
row 'one that wants more is refused' "$said" "$(has "$said" 'violates PodSecurity')"
pod mapped 'cat /proc/self/uid_map' '"hostUsers": false' >/dev/null
said=$(until_says 30 Succeeded path mapped '{.status.phase}')
case $said in
Succeeded) row 'a user namespace for each pod (hostUsers: false)' "$(k logs mapped | tr -s ' ')" - ;;
*) row 'a user namespace for each pod (hostUsers: false)' "none here: $(k get events --field-selector involvedObject.name=mapped -o 'jsonpath={.items[-1:].message}' | cut -c1-80)" - ;;
esac
said=$(kubectl api-resources --api-group admissionregistration.k8s.io -o name 2>/dev/null | grep -m 1 validatingadmissionpolicies || echo none)
row 'a runner can be held to the namespaces of teams' "$said" "$(has "$said" validating)"
for class in $(kubectl get runtimeclasses -o 'jsonpath={.items[*].metadata.name}'); do
    pod "with-$class" 'uname -r; unshare -Ur true 2>/dev/null && echo namespaces || echo no namespaces' "\"runtimeClassName\": \"$class\"" >/dev/null
    row "runtime class $class: its kernel, and what programs may make" "$(printed "with-$class")" -
done

# -- who is reached

pod other 'sleep 600' >/dev/null
until_says 60 Running path other '{.status.phase}' >/dev/null
api=$(kubectl get service kubernetes -n default -o 'jsonpath={.spec.clusterIP}')
k create -f - >/dev/null <<'JSON'
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "nothing"},
 "spec": {"podSelector": {"matchLabels": {"handrail.dev/prove": "held"}}, "policyTypes": ["Ingress", "Egress"]}}
JSON
sleep 3 # a network plug-in needs a moment to learn of a policy
ask="if nc -w 3 $api 443 </dev/null 2>/dev/null; then echo reached; else echo not reached; fi"
pod open "$ask" >/dev/null
pod held "sleep 2; $ask" >/dev/null
row 'without a policy a pod reaches the API server' "$(printed open | tail -n 1)" -
said=$(printed held | tail -n 1)
row 'with the policy of workspaces it does not' "$said" "$(has "$said" 'not reached')"

# -- what goes wrong

image=registry.invalid/absent:1 pod unpulled true >/dev/null
said=$(until_says 60 Err path unpulled '{.status.containerStatuses[0].state.waiting.reason}')
row 'an image that cannot be pulled is a reason to wait' "$said" "$(has "$said" Err)"
pod huge true '' '"resources": {"requests": {"memory": "900Ti"}, "limits": {"memory": "900Ti"}}' >/dev/null
said=$(until_says 20 Unschedulable path huge '{.status.conditions[?(@.type=="PodScheduled")].reason}')
row 'a pod that fits no node says so' "$said" "$(has "$said" Unschedulable)"
k create -f - >/dev/null <<'JSON'
{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}}
JSON
said=$(for _ in 1 2 3 4 5 6 7 8 9 10; do pod late true 2>&1 && k delete pod late --now; sleep 0.5; done | grep -m 1 -o 'exceeded quota: [a-z]*')
row 'a quota that is used up refuses the next pod' "$said" "$(has "$said" 'exceeded quota')"
k delete resourcequota full >/dev/null
# The shell itself has to grow: only what is the first process is reported as killed for memory.
pod big 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done' >/dev/null
said=$(until_says 60 OOMKilled path big '{.status.containerStatuses[0].state.terminated.reason}')
row 'a program beyond its memory ends its pod' "$said" "$(has "$said" OOMKilled)"
pod ends 'exit 3' >/dev/null
said=$(until_says 60 "Failed 3" path ends '{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}')
row 'a pod that ends by itself has its status' "$said" "$(has "$said" 'Failed 3')"

# -- what goes away

pod leaves "trap 'echo asked to end; sleep 2; exit 0' TERM; echo up; while :; do sleep 0.2; done" >/dev/null
until_says 60 Running path leaves '{.status.phase}' >/dev/null
uid=$(path leaves '{.metadata.uid}')
k logs -f leaves >"${TMPDIR:-/tmp}/handrail-prove.$$" 2>&1 &
follows=$!
echo '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "leaves"}}' |
    kubectl create --raw "/api/v1/namespaces/$namespace/pods/leaves/eviction" -f - >/dev/null
said=$(path leaves '{.metadata.deletionTimestamp} {.status.conditions[?(@.type=="DisruptionTarget")].reason}')
wait $follows
row 'an evicted pod says that it goes, and why' "$said" "$(has "$said" Evict)"
said=$(tail -n 1 "${TMPDIR:-/tmp}/handrail-prove.$$")
rm -f "${TMPDIR:-/tmp}/handrail-prove.$$"
row 'its programs are told, within its grace' "$said" "$(has "$said" 'asked to end')"
until_says 30 NotFound sh -c "kubectl -n $namespace get pod leaves 2>&1" >/dev/null
pod leaves 'sleep 600' >/dev/null
said=$(path leaves '{.metadata.uid}')
row 'another pod of the same name has another UID' "${uid%%-*} then ${said%%-*}" "$([ "$said" != "$uid" ] && echo yes || echo no)"
said=$(kubectl get --raw "/api/v1/namespaces/$namespace/pods?watch=1&resourceVersion=1&timeoutSeconds=2" 2>&1 | grep -m 1 -o '"code":410\|too old resource version' || echo 'it still knows the first version')
row 'a watch that is too old ends with 410, or goes on' "$said" -
if [ -n "$drain" ]; then
    until_says 60 Running path leaves '{.status.phase}' >/dev/null
    node=$(path leaves '{.spec.nodeName}')
    kubectl drain "$node" --pod-selector handrail.dev/prove=leaves --ignore-daemonsets --delete-emptydir-data --force --timeout 60s >/dev/null 2>&1
    said=$(holds k get pod leaves)
    kubectl uncordon "$node" >/dev/null
    row "a drain of $node takes the pod away" "$([ "$said" = no ] && echo gone || echo still there)" "$([ "$said" = no ] && echo yes || echo no)"
fi

# -- agent-sandbox, where it is

if kubectl get crd sandboxes.agents.x-k8s.io >/dev/null 2>&1; then
    sandbox() { k get sandbox boxed -o "jsonpath={.status.conditions[?(@.type==\"$1\")].$2}"; }
    k create -f - >/dev/null <<JSON
{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "boxed"},
 "spec": {"podTemplate": {"spec": $(spec 'sleep 600')}}}
JSON
    said=$(until_says 60 True sandbox Ready status)
    row 'agent-sandbox: a Sandbox gets a pod' "Ready=$said" "$(has "$said" True)"
    k patch sandbox boxed --type merge -p '{"spec": {"operatingMode": "Suspended"}}' >/dev/null
    said=$(until_says 60 PodTerminated sandbox Suspended reason)
    row 'agent-sandbox: a suspended one has none' "$said" "$(has "$said" PodTerminated)"
    k patch sandbox boxed --type merge -p '{"spec": {"operatingMode": "Running", "shutdownTime": "2020-01-01T00:00:00Z"}}' >/dev/null
    said=$(until_says 60 SandboxExpired sandbox Ready reason)
    row "agent-sandbox: a time that is over ends it (dead man's switch)" "$said" "$(has "$said" SandboxExpired)"
else
    row 'agent-sandbox' 'its CRDs are not installed; HANDRAIL_KUBERNETES_SOURCE=pods works' -
fi

echo >&2
printf '%s' "$rows" | awk -F'|' '
    { what[NR] = $1; seen[NR] = substr($2, 1, 90); holds[NR] = $3; if (length($1) > w) w = length($1) }
    END { for (i = 1; i <= NR; i++) printf "%-4s %-" w "s  %s\n", holds[i] == "-" ? "" : holds[i], what[i], seen[i] }'
echo
if [ "$failed" = 0 ]; then echo "All of it holds."; else echo "$failed of it do not hold."; fi
exit "$failed"
