"""An environment's variables and working directory reach each program: setup, commands, services and terminals."""

import os

from tests.support.desk import Desk
from tests.support.waiting import until


def test_variables_reach_setup_commands_and_terminals(product, desk):
    name = f"with-variables-{os.urandom(4).hex()}"
    manager = Desk(product, product.person_token("manager-of-variables", "admin"))
    wish = {"name": name, "driver": "sandbox", "variables": {"GREETING": "a b"}, "working_directory": "api"}
    manager.post("/environments", wish | {"setup": 'mkdir api && echo "$GREETING" > /workspace/api/made'})
    key = desk.create(environment=name)["key"]
    assert desk.run(key, 'pwd; cat made; echo "$GREETING"') == b"/workspace/api\na b\na b\n"
    script = 'pwd > where; echo "$GREETING" >> where; rm -r /workspace/gone; exit'
    desk.post(f"/workspaces/{key}/terminals", {"argv": ["sh", "-c", script]})
    until(lambda: desk.run(key, "cat where || true") == b"/workspace/api\na b\n")


def test_a_terminal_opens_at_the_top_where_the_folder_is_missing(product, desk):
    name = f"no-folder-{os.urandom(4).hex()}"
    manager = Desk(product, product.person_token("manager-of-variables", "admin"))
    manager.post("/environments", {"name": name, "driver": "sandbox", "working_directory": "nowhere"})
    key = desk.create(environment=name)["key"]
    desk.post(f"/workspaces/{key}/terminals", {"argv": ["sh", "-c", "pwd > where"]})
    read = f"/workspaces/{key}/files/where"
    until(lambda: desk.get(read, expect=None).status == 200)
    until(lambda: desk.get(read).body == b"/workspace\n")
