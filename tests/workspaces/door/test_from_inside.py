"""The attack from inside: a held program of an agent asks Handrail with the token that every program of the Run has."""

import base64
import json

ASK = """
import json, os, sys, urllib.request
token, key = os.environ["HANDRAIL_TOKEN"], os.environ["HANDRAIL_WORKSPACE"]
for method, path, body in json.loads(sys.argv[1]):
    url = "http://handrail.internal/api/v1" + path.replace("KEY", key)
    request = urllib.request.Request(url, body.encode() if body else None, method=method)
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            print(answer.status, ascii(answer.read()[:5000]))
    except urllib.error.HTTPError as error:
        print(error.code, ascii(error.read()))
"""
LEAK = json.dumps({"argv": ["bash", "-c", "cat /workspace/.env > /workspace/leak"]})


def from_inside(agent, key, *requests) -> list[tuple[int, str]]:
    """Send requests as a held program of the agent; return (status, body) of each."""
    code = base64.b64encode(ASK.encode()).decode()
    command = ["python3", "-c", f"import base64; exec(base64.b64decode('{code}'))", json.dumps(requests)]
    done = agent.finished(agent.post(f"/workspaces/{key}/commands", {"argv": command}).json["id"])
    lines = agent.get(f"/commands/{done['id']}/output").body.decode().splitlines()
    assert len(lines) == len(requests), lines
    return [(int(status), body) for status, _, body in (line.partition(" ") for line in lines)]


def test_its_token_opens_no_terminal_and_reads_no_secret(agent, lead, place):
    said = from_inside(
        agent,
        place,
        ("POST", "/workspaces/KEY/terminals", LEAK),
        ("GET", "/workspaces/KEY/terminals", ""),
        ("GET", "/workspaces/KEY/files/.env", ""),
        ("GET", "/workspaces/KEY/files/?zip=1", ""),
        ("POST", "/workspaces/KEY/fork", '{"key": "out"}'),
    )
    assert [status for status, _ in said] == [403, 403, 403, 200, 403]
    assert not [body for _, body in said if "canary" in body]
    lead.run(place, "test ! -e leak")
    lead.get("/workspaces/out", expect=404)


def test_what_it_writes_at_a_protected_path_waits_for_a_person(agent, lead, place):
    said = from_inside(
        agent,
        place,
        ("PUT", "/workspaces/KEY/files/.git/hooks/post-commit", "x"),
        ("DELETE", "/workspaces/KEY/files/.git", ""),
        ("PUT", "/workspaces/KEY/files/plain", "x"),
    )
    assert [status for status, _ in said] == [202, 202, 201]
    lead.run(place, "test ! -e .git/hooks/post-commit && test -d .git && test -e plain")
