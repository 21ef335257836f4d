"""A preview in Chromium, through nginx: opened from the desk, with its WebSocket, and apart from the desk."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SIZES
from tests.support import previewed_app
from tests.support.desk import Desk
from tests.support.nginx import nginx
from tests.support.nginx import program as nginx_program
from tests.support.product import Product, free_port
from tests.support.waiting import until

PORT = 3457
APP = Path(previewed_app.__file__).read_bytes()


@pytest.fixture(scope="module")
def behind_nginx(require, tmp_path_factory):
    """A product whose public address is nginx's, which serves preview hosts too."""
    program, port = nginx_program(require), free_port()
    public = {"HANDRAIL_PUBLIC_URL": f"http://desk.localhost:{port}", "HANDRAIL_PREVIEW_HOST": "preview.localhost"}
    running = Product(tmp_path_factory.mktemp("previews"), **public)

    def change(text):
        return text.replace("server_name localhost", "server_name desk.localhost").replace("example.net", "localhost")

    try:
        running.start()
        folder = tmp_path_factory.mktemp("nginx") / "previews"
        with nginx(program, folder, running.port, change, port):
            yield running, f"http://desk.localhost:{port}"
    finally:
        running.clean_up()


@pytest.fixture(scope="module")
def key(behind_nginx):
    product, _ = behind_nginx
    desk = Desk(product, product.agent_token("builder"))
    made = desk.create("web-shop")["key"]
    desk.call("PUT", f"/workspaces/{made}/files/app.py", APP, 201)
    desk.post(f"/workspaces/{made}/commands", {"command": f"exec python3 app.py {PORT}", "timeout_s": 3600})
    listens = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))' 2>/dev/null || echo no"
    until(lambda: desk.run(made, listens) == b"")
    return made


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_a_reviewer_opens_a_port_in_a_new_tab(behind_nginx, key, chromium, size):
    # In this order, so that Chromium's event loop ends before the product is cleared away.
    product, desk = behind_nginx
    context = chromium.new_context(viewport=SIZES[size])
    page = context.new_page()
    page.goto(product.sign_in_url(f"rita-{size}", "reviewer").replace(product.url, desk))
    page.locator("main button").click()
    expect(page).to_have_url(f"{desk}/")
    page.goto(f"{desk}/w/main/{key}/network/")
    page.get_by_label("Another port").fill(str(PORT))
    with context.expect_page() as opening:
        page.get_by_role("button", name="Open preview").click()
    preview = opening.value
    preview.wait_for_load_state()
    assert f".preview.localhost:{desk.rpartition(':')[2]}/" in preview.url
    told = preview.locator("body").inner_text()
    assert f'"Host": "localhost:{PORT}"' in told
    assert "handrail" not in told.lower()  # no cookie of ours
    preview.goto(preview.url + "page")
    expect(preview.get_by_role("heading")).to_have_text("From the workspace")
    expect(preview.locator("#said")).to_have_text("hello")
    own_host = preview.url.split("/")[2].partition(":")[0]
    assert {cookie["domain"] for cookie in context.cookies() if cookie["name"] == "own"} == {own_host}
    context.close()
