"""Times that the browser rewrites in the viewer's zone have the form in which the server writes them."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from dashboard.templatetags import handrail
from tests.support.chromium import fetch

from .conftest import HERE, settle

WRITTEN = re.compile(r'<time datetime="([^"]+)" data-clock title="([^"]+)">([^<]+)</time>')
SHOWN = "times => times.map(time => [time.getAttribute('datetime'), time.title, time.textContent])"
# Times as the server sends them, but for what the browser is to write.
REWRITE = """moments => {
    const place = document.createElement("div");
    place.innerHTML = moments.map(moment => `<time datetime="${moment}" data-clock title="?">?</time>`).join(" ");
    document.body.append(place);
    place.dispatchEvent(new Event("changed", {bubbles: true}));
    return [...place.children].map(time => [time.title, time.textContent]);
}"""


@pytest.mark.parametrize("size", ["desktop"])
@pytest.mark.parametrize("zone", ["Australia/Adelaide", "America/St_Johns"])
def test_the_browsers_clock_is_the_servers(person, product, workspace, zone):
    page = person("tess", timezone_id=zone)
    address = HERE.format(key=workspace)
    page.goto(product.desk + address)  # its first page tells the server the zone
    page.goto(product.desk + address)
    settle(page)
    written = set(WRITTEN.findall(fetch(page, product, address).text()))
    shown = {tuple(row) for row in page.eval_on_selector_all("time[data-clock]", SHOWN)}
    assert written == shown != set()

    now = timezone.now()
    moments = [datetime(year, month, 1, 3, 4, 5, tzinfo=UTC) for year in (now.year, 2031) for month in range(1, 13)]
    moments += [now, now - timedelta(days=1), datetime(now.year, 1, 1, 1, 0, tzinfo=UTC)]
    with timezone.override(zone):
        server = [list(WRITTEN.search(handrail.clock(moment)).groups()[1:]) for moment in moments]
    assert page.evaluate(REWRITE, [moment.isoformat() for moment in moments]) == server
