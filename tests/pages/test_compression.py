"""What a page weighs on the network: pages are compressed with a padding, and pages that show a secret are not."""

import gzip
import re

import pytest

TAKES_GZIP = {"Accept-Encoding": "gzip, br"}
CARD_BYTES = 60_000


@pytest.fixture
def page(browser_of, lena):
    client = browser_of(lena)

    def get(address, headers=TAKES_GZIP):
        return client.get(address, headers=headers)

    get.post = client.post
    return get


def test_a_card_beside_sixty_others_is_small_on_the_network(page, ask):
    for number in range(60):
        last = ask({"command": f"git push origin HEAD:refs/heads/feature-{number}"})
    card = page(f"/actions/{last.pk}/")
    assert card.headers["Content-Encoding"] == "gzip"
    assert last.title in gzip.decompress(card.content).decode()
    fetched = [page(f"/actions/{last.pk}/{part}/") for part in ("evidence", "looking")]
    assert sum(len(answer.content) for answer in [card, *fetched]) < CARD_BYTES


def test_whoever_takes_no_gzip_gets_none(page):
    answer = page("/", headers={})
    assert "Content-Encoding" not in answer.headers
    assert "Accept-Encoding" in answer.headers["Vary"]


def test_the_length_of_a_page_is_padded(page):
    def length(answer):
        # The masked token differs as well; what is left out of the comparison is the text.
        return len(answer.content) - len(gzip.compress(gzip.decompress(answer.content), 6))

    assert len({length(page("/more/")) for _ in range(20)}) > 3


def test_what_is_no_page_is_not_compressed(page):
    assert "Content-Encoding" not in page("/live?after=0").headers


@pytest.mark.parametrize("address", ["/accounts/login/", "/connect/phone/"])
def test_pages_with_secrets_are_not_compressed(page, client, address):
    ask_as = client.get if "login" in address else page
    answer = ask_as(address, headers=TAKES_GZIP)
    assert answer.status_code == 200
    assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize(("address", "back"), [("/agents/add/", "/agents/"), ("/connect/token/", "/connect/")])
def test_a_token_is_shown_uncompressed_and_stored_nowhere(page, team, address, back):
    assert page.post(address, {"team": team.slug, "name": "new-agent"}).status_code == 302
    shown = page(back)
    assert re.search(r"hr_\w{20,}|[\w-]{40,}", shown.content.decode())
    assert shown.headers["Cache-Control"] == "no-store"
    assert "Content-Encoding" not in shown.headers
    assert page(back).headers["Content-Encoding"] == "gzip"
