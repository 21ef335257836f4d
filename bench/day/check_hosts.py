"""Check a day on several hosts: each workspace is at its one place, and each act had its answer."""

from bench.day.findings import rule

HAS_FILES = ("ready", "paused", "stopped")
ANSWERS = (200, 202, 409)  # of the operator's acts; 409 says why nothing was done


@rule("places")
def each_workspace_is_where_its_place_says(evidence):
    hosts = {row["id"]: row["host"] for row in evidence.rows["hosts"]}
    for row in evidence.rows["workspaces"]:
        shown = evidence.places.get(row["key"])
        if shown is None:
            continue
        kept, said = hosts.get(row["runner_id"]), (shown["place"] or {}).get("host")
        if kept != said:
            yield f"{row['key']} is on {kept}, and its page says {said}"
        trees = evidence.trees[row["id"]]
        if row["state"] in HAS_FILES and said not in trees:
            yield f"{row['key']} is {row['state']} on {said}, which has no files of it"
        if others := [host for host in trees if host != said]:
            yield f"{row['key']} is on {said}, and {', '.join(others)} has files of it too"
        if shown["state"] == "unreachable":
            yield f"{row['key']} is unreachable after the end: {shown['reason']}"


@rule("places")
def a_move_changes_nothing(evidence):
    for event in evidence.rows["events"]:
        if event["verb"] == "workspace.moved" and event["data"]["differ"]:
            yield f"{event['data']['differ']} entries of {event['workspace_id']} differed when it moved"


@rule("hosts")
def each_host_is_back(evidence):
    for row in evidence.rows["hosts"]:
        for name in ("lost_at", "draining_at"):
            if row[name]:
                yield f"{row['host']} has {name} {row[name]:%H:%M:%S} after the end"


@rule("hosts")
def each_act_of_the_operator_was_answered(evidence):
    last = {}
    for each in evidence.seen:
        if each.actor == "operator":
            last[each.verb, each.about["path"]] = each
    for (verb, path), each in last.items():
        wanted = (200,) if verb == "declare a host lost" else ANSWERS
        if each.status not in wanted:
            yield f"{verb} ({path}) was answered with {each.status}: {each.problem}"
