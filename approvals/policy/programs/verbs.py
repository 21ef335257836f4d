"""The subcommand in a program's words, found only if its grammar is known, after options that take a value."""

from ..shell_words import names

# Options before the subcommand that take the next word.
GLOBAL_VALUES = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix",
    "kubectl": "-n --namespace --context --cluster --kubeconfig -s --server --user --token --as --as-group --cache-dir"
    " --request-timeout -v --certificate-authority --client-key --client-certificate --profile",
    "helm": "-n --namespace --kube-context --kubeconfig --registry-config --repository-config --repository-cache",
    "docker": "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    "gh": "-R --repo --hostname",
    "npm": "--prefix -C -w --workspace --registry --loglevel --cache --userconfig --tag --access --otp --omit"
    " --include",
    "pnpm": "--dir -C --filter -F --prefix --registry --store-dir --access --tag",
    "yarn": "--cwd --registry --access --tag",
    "bun": "--cwd --filter --registry --access --tag",
    "cargo": "--color --manifest-path --config -C -Z --target-dir",
    "go": "-C",
    "make": "-C -f -I -o -W --directory --file --makefile",
    "pip": "--python --log --proxy --timeout --retries --cache-dir --cert --trusted-host",
    "uv": "--directory --project --config-file --cache-dir --color --python",
    "poetry": "-C --directory -P --project",
    "aws": "--profile --region --output --endpoint-url --query --ca-bundle --color --cli-read-timeout"
    " --cli-connect-timeout",
    "gcloud": "--project --account --format --configuration --zone --region --verbosity --impersonate-service-account",
    "az": "--subscription --output -o --query -g --resource-group",
    "terraform": "-chdir",
    "systemctl": "-H --host -M --machine -t --type",
    "psql": "-h --host -p --port -U --username -d --dbname -c --command -f --file -v --set",
}
GLOBAL_VALUES |= {"pip3": GLOBAL_VALUES["pip"], "tofu": GLOBAL_VALUES["terraform"], "podman": GLOBAL_VALUES["docker"]}
GLOBAL_VALUES = {program: names(text) for program, text in GLOBAL_VALUES.items()}
# Options before the subcommand that take no value; after any other one, the subcommand is not certain.
GLOBAL_FLAGS = names(
    """
    --no-pager -P -p --paginate --bare --no-optional-locks --literal-pathspecs --no-replace-objects --debug -D --tls
    --tlsverify --insecure-skip-tls-verify -s -q --quiet --silent -v --verbose -y --yes --json -g --global -r -w -D
    --offline --locked --frozen --no-cache --no-color --no-progress --no-interaction -n --no-sign-request --no-paginate
    --no-verify-ssl --user --system --now --no-pager --isolated --no-input --disable-pip-version-check -B -k -i -l
    """
)


def operands_of(name, texts):
    """Return the words up to `--` that are not options; None if an option before the first one is unknown."""
    valued = GLOBAL_VALUES.get(name, frozenset())
    found, rest = [], list(texts)
    while rest:
        text = rest.pop(0)
        if text == "--":
            break
        if not text.startswith("-") or text == "-":
            if not (name == "cargo" and text.startswith("+")):
                found.append(text)
        elif text in valued:
            rest = rest[1:]
        elif not found and "=" not in text and text not in GLOBAL_FLAGS:
            return None
    return found
