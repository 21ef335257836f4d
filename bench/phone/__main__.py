"""`python -m bench.phone [--rounds N]`: pages on a slow phone: the Desk, the list, a card, an agent, and Changes.

A product of its own with five agents at work, a hundred actions waiting and 317 deleted files (bench/phone/filling.py),
Debian's Chromium, somebody who is signed in. First Lighthouse's scores on its phone profile, each round a first visit
with empty caches; then what each page weighs and when it can be used for somebody who was here before, with Chromium's
4x processor and slow 4G; then taps and seconds from a notification's link to the decision, and for fifty requests that
are alike.
"""

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.phone import filling, lighthouse, taps, visits
from tests.support import busy_desk
from tests.support.chromium import ARGUMENTS
from tests.support.product import Product, free_port

SCORE, WEIGHT, INTERACTIVE = 95, 60_000, 1000
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


@contextmanager
def _signed_in(sign_in: str):
    """Yield (a page of somebody who is signed in, the port at which Lighthouse finds the same browser)."""
    chromium, port = shutil.which("chromium"), free_port()
    if chromium is None:
        raise SystemExit("this benchmark needs Chromium")
    arguments = [*ARGUMENTS, f"--remote-debugging-port={port}"]
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=arguments, **PHONE
        )
        page = context.pages[0]
        page.goto(sign_in)
        page.locator("main button").click()
        page.wait_for_load_state("networkidle")
        yield page, port
        context.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.phone", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each page; the medians are printed")
    options = parser.parse_args()
    program = lighthouse.install()
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        sources = Path(folder, "sources")
        product = Product(Path(folder, "home"), **busy_desk.settings(sources))
        try:
            product.start()
            desk = filling.fill(product, sources)
            with _signed_in(product.sign_in_url("rita")) as (page, port):
                good = _measure(product.desk, desk, page, port, program, options.rounds)
                return 0 if _count_taps(page, product) and good else 1
        finally:
            product.clean_up()


def _measure(base: str, desk: filling.FullDesk, page, port: int, program: Path, rounds: int) -> bool:
    pages = {name: base + path for name, path in desk.pages.items()}
    other = f"{base}/actions/{desk.waiting[2]}/"
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    print(f"{len(desk.waiting)} actions wait, {rounds} rounds, {load}")
    print(f"\nLighthouse {lighthouse.VERSION}, phone, first visit; the goal is {SCORE} each")
    heads = "".join(f"{head:>8}" for head in ("perf", "a11y", "best", "FCP ms", "LCP ms", "TBT ms", "CLS", "kB"))
    print(f"{'page':<12}{heads}  below 0.9")
    good = True
    for name, address in pages.items():
        found = lighthouse.scores(program, address, port, rounds=rounds)
        good = good and all(found[category] >= SCORE for category in lighthouse.CATEGORIES)
        rated = "".join(f"{found[category]:>8.0f}" for category in lighthouse.CATEGORIES)
        moments = [
            found[name] for name in ("first-contentful-paint", "largest-contentful-paint", "total-blocking-time")
        ]
        print(
            f"{name:<12}{rated}{''.join(f'{moment:>8.0f}' for moment in moments)}{found['layout-shift']:>8.3f}"
            f"{found['bytes'] / 1000:>8.0f}  {', '.join(found['faults'])}",
            flush=True,
        )
    print(f"\nLater visits, 4x processor, slow 4G; the goals for the card: {WEIGHT // 1000} kB, {INTERACTIVE} ms")
    print(f"{'page':<12}{'kB':>7}{'fetches':>9}{'answer ms':>11}{'painted ms':>12}{'interactive ms':>16}")
    for name, address in pages.items():
        visit = visits.again(page, [pages["Desk"], pages["Approvals"], other], address, rounds=rounds)
        if name == "Card":
            good = good and visit.bytes < WEIGHT and visit.interactive <= INTERACTIVE
        print(
            f"{name:<12}{visit.bytes / 1000:>7.1f}{visit.requests:>9.0f}{visit.answered:>11.0f}"
            f"{visit.painted:>12.0f}{visit.interactive:>16.0f}",
            flush=True,
        )
    return good


def _count_taps(page, product: Product) -> bool:
    token = product.agent_token("pusher")
    print(f"\nTaps and seconds, unthrottled, load {os.getloadavg()[0]:.1f}")
    good = True
    goals = {taps.approve_from_notification: (2, 5.0), taps.fifty_alike: (3, None)}
    names = ("a notification's card, approved in two steps", f"{taps.ALIKE} alike, from the list")
    for name, (way, (most, within)) in zip(names, goals.items(), strict=True):
        found = way(page, product, token)
        good = good and found.taps <= most and (within is None or found.seconds <= within)
        goal = "" if within is None else f" (goal {within:.0f})"
        print(f"{name:<46}{found.taps:>3} taps (goal {most}) {found.seconds:>6.1f} s{goal}")
    return good


if __name__ == "__main__":
    sys.exit(main())
