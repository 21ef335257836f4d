"""Try display attacks on the cards of a review desk, in Chromium, and compare what is visible with what must be.

Each case is submitted as a call: over Handrail's API with an agent's token, or by any command that gets the case as
JSON on its standard input and prints the address of the card. Then the card is opened by somebody who is signed in,
everything folded is opened, and the page's visible text is compared with what the case must show.

Ends with 0 if every case passes. Needs the package playwright, and Chromium.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

CASES = Path(__file__).parent / "cases.json"
OPEN_ALL = "() => { for (const fold of document.querySelectorAll('details')) fold.open = true; }"
# What is on screen, and the labels that style sheets draw; what is hidden is not in it.
VISIBLE = """() => {
    const label = (element) => element.getAttribute('title') ?? '';
    const titles = [...document.querySelectorAll('main [title]')].map(label);
    return [document.querySelector('main').innerText, ...titles].join('\\n');
}"""
INJECTED = "() => window.injected !== undefined || document.getElementById('injected') !== null"


def main(arguments=None) -> int:
    options = _parser().parse_args(arguments)
    cases = json.loads(CASES.read_text())["cases"]
    cases = [case for case in cases if options.only in case["name"]]
    submit = _by_command(options.submit) if options.submit else _over_api(options)
    failed = 0
    for case, wrong in _tried(cases, submit, options):
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'passed'}  {case['name']}{': ' if wrong else ''}{'; '.join(wrong)}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m handrail_card_corpus", description=__doc__)
    made.add_argument("--url", required=True, help="the address of the desk")
    made.add_argument("--api", help="where Handrail's API answers, if not at --url; HANDRAIL_TOKEN is an agent's token")
    made.add_argument("--submit", metavar="COMMAND", help="for another desk: a program and its arguments")
    made.add_argument("--sign-in", metavar="ADDRESS", help="a one-time sign-in link of Handrail")
    made.add_argument("--state", metavar="FILE", help="playwright's storage state of somebody who is signed in")
    made.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    made.add_argument("--only", default="", metavar="WORDS", help="cases whose name has this")
    return made


def _by_command(command: str):
    def submit(case: dict) -> str:
        done = subprocess.run(shlex.split(command), input=json.dumps(case).encode(), stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().strip()

    return submit


def _over_api(options):
    def submit(case: dict) -> str:
        body = {"tool": case["tool"], "arguments": case["arguments"], "session": case["name"]}
        headers = {"Authorization": f"Bearer {os.environ['HANDRAIL_TOKEN']}", "Content-Type": "application/json"}
        address = f"{options.api or options.url}/api/v1/actions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return f"{options.url}/actions/{json.load(answer)['id']}/"

    return submit


def _tried(cases: list[dict], submit, options):
    """Yield (case, what is wrong with its card) for each case."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        viewport = {"width": 390, "height": 844}
        context = browser.new_context(viewport=viewport, storage_state=options.state or None)
        page = context.new_page()
        if options.sign_in:
            page.goto(options.sign_in)
            page.locator("main button").first.click()
            page.wait_for_load_state("networkidle")
        for case in cases:
            page.goto(submit(case))
            page.wait_for_load_state("networkidle")
            page.evaluate(OPEN_ALL)
            yield case, _wrong(case, page.evaluate(VISIBLE), injected=page.evaluate(INJECTED))
        browser.close()


def _wrong(case: dict, text: str, *, injected: bool) -> list[str]:
    shown = text.casefold()
    wrong = [f"does not show {json.dumps(each)}" for each in case["shows"] if each.casefold() not in shown]
    wrong += [f"shows {json.dumps(each)}" for each in case["lacks"] if each.casefold() in shown]
    return [*wrong, "markup of the call became part of the page"] if injected else wrong


if __name__ == "__main__":
    sys.exit(main())
