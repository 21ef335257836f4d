"""Pushes of the house are taken back at a real git server: found before the decision, raced, refused in words, once."""


def pushed(team, branch: str = "main") -> tuple[dict, str, str]:
    """Push to a branch with an approval; return the action, and where the branch was and is."""
    before, after = team.source.at(branch), team.commits()
    asked = team.agent.post(f"/workspaces/{team.key}/push", {"branch": branch}, expect=202).json["action"]
    found = team.found(asked["id"])
    assert (found["status"], found["undo"], found["compensation"]["state"]) == ("pending", "outside", "found")
    words = f"puts {branch} back to {before[:7]}" if before else f"deletes {branch}"
    assert found["compensation"]["title"] == f"{words} if nobody pushed meanwhile"
    assert found["compensation"]["call"]["tool"] == "Handrail.TakeBack"
    assert team.lead.post(f"/actions/{asked['id']}/compensate", {}, expect=409).json["code"] == "no_way_back"
    done = team.approve(found)
    assert (done["status"], team.source.at(branch)) == ("succeeded", after), done
    return team.ready(asked["id"]), before, after


def test_a_branch_is_put_back_by_a_card_of_its_own(team):
    action, before, after = pushed(team)
    step = action["compensation"]["call"]["arguments"]["steps"]
    ref = {"do": "put_back", "remote": team.source.address, "ref": "refs/heads/main", "to": before, "if_at": after}
    assert step == [ref]
    asked = team.compensate(action["id"])
    assert (asked["status"], asked["compensates"], asked["tool"]) == ("pending", action["id"], "Handrail.TakeBack")
    assert asked["title"].endswith(f"it puts main back to {before[:7]} if nobody pushed meanwhile")
    assert team.lead.get(f"/actions/{action['id']}").json["compensation"]["action"] == asked["id"]
    assert team.compensate(action["id"], expect=200)["id"] == asked["id"]
    [finding] = team.lead.get(f"/actions/{asked['id']}/evidence").json["findings"]
    assert "Removes 1 commit from main." in finding["says"]
    assert [commit["sha"] for commit in finding["commits"]] == [after[:10]]
    assert team.source.at("main") == after
    done = team.approve(asked)
    assert (done["status"], team.source.at("main")) == ("succeeded", before), done
    assert team.compensate(action["id"], expect=200)["id"] == asked["id"]


def test_a_branch_that_was_made_is_deleted(team):
    action, before, _ = pushed(team, "agent/new")
    assert before == ""
    done = team.approve(team.compensate(action["id"]))
    assert (done["status"], team.source.at("agent/new")) == ("succeeded", ""), done


def test_a_push_of_somebody_else_in_between_is_kept(team):
    action, _, after = pushed(team)
    theirs = team.source.somebody_pushes("main")
    done = team.approve(team.compensate(action["id"]))
    assert (done["status"], team.source.at("main")) == ("failed", theirs)
    words = f"main is at {theirs[:7]} now, not at {after[:7]}: somebody pushed meanwhile. Nothing was changed."
    assert done["result"]["note"] == words
    again = team.compensate(action["id"])
    assert (again["id"] != done["id"], again["status"]) == (True, "pending")


def test_the_links_and_events_are_in_the_log(team):
    action, _, _ = pushed(team)
    asked = team.compensate(action["id"])
    events = team.lead.get("/events?after=0").json["events"]
    of_first = [each["verb"] for each in events if each["subject"]["id"] == action["id"]]
    assert [verb for verb in of_first if "back" in verb or "compensation" in verb] == [
        "action.way_back_found", "action.way_back_complete", "action.compensation_asked",
    ]  # fmt: skip
    [link] = [
        each for each in events if each["verb"] == "action.compensation_asked" and each["subject"]["id"] == action["id"]
    ]
    assert (link["data"]["action"], link["actor"]["label"]) == (asked["id"], "lead")
    team.approve(asked)


def test_a_denied_compensation_changes_nothing_and_can_be_asked_again(team):
    action, _, after = pushed(team)
    asked = team.compensate(action["id"])
    team.lead.post(f"/actions/{asked['id']}/decision", {"verdict": "deny", "digest": asked["digest"]}, expect=200)
    assert (team.source.at("main"), team.compensate(action["id"])["id"] != asked["id"]) == (after, True)
