"""What a page weighs, and when it can be used, on a slow phone that was here before; by the DevTools protocol."""

import statistics
from dataclasses import dataclass

# Chromium's and Lighthouse's "slow 4G", as applied to each request: 3.75 round trips of 150 ms, 90 % of 1.6 Mbit/s.
SLOW_4G = {"offline": False, "latency": 562.5, "downloadThroughput": 180_000, "uploadThroughput": 84_375}
SLOWDOWN = 4
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((seen) => {
    for (const task of seen.getEntries()) window.longTasks.push(task.startTime + task.duration);
}).observe({type: "longtask", buffered: true});
"""
MOMENTS = """() => {
    const [load] = performance.getEntriesByType("navigation");
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    return {
        answered: load.responseStart,
        painted: paint?.startTime ?? 0,
        ready: load.domContentLoadedEventEnd,
        calm: Math.max(0, ...window.longTasks),
    };
}"""


@dataclass
class Visit:
    """Bytes as they came over the network, headers included, and milliseconds from the tap on the link."""

    bytes: int
    requests: int
    answered: float
    painted: float
    interactive: float  # painted, its scripts attached, and the last long task over


class Meter:
    """Counts what a page fetches. The service worker, which answers no request by itself, is passed by."""

    def __init__(self, page):
        self.page, self.sizes = page, {}
        page.add_init_script(LONG_TASKS)
        self.devtools = page.context.new_cdp_session(page)
        self.devtools.on("Network.loadingFinished", self._finished)
        self.devtools.send("Network.enable")
        self.devtools.send("Network.setBypassServiceWorker", {"bypass": True})

    def _finished(self, event: dict):
        self.sizes[event["requestId"]] = event["encodedDataLength"]

    def slow(self, on: bool):
        conditions = SLOW_4G if on else SLOW_4G | {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.devtools.send("Network.emulateNetworkConditions", conditions)
        self.devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN if on else 1})

    def visit(self, address: str) -> Visit:
        """Load it, and wait until nothing is fetched and nothing long runs for two seconds."""
        self.sizes.clear()
        self.page.goto(address)
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_timeout(2000)
        at = self.page.evaluate(MOMENTS)
        fetched = [size for size in self.sizes.values() if size]
        interactive = max(at["painted"], at["ready"], at["calm"])
        return Visit(sum(fetched), len(fetched), at["answered"], at["painted"], interactive)


def again(page, seen_before: list[str], address: str, *, rounds: int) -> Visit:
    """Return the medians of visits to a page whose browser has seen these addresses before."""
    meter = Meter(page)
    for known in seen_before:
        meter.visit(known)
    meter.slow(True)
    visits = [meter.visit(address) for _ in range(rounds)]
    meter.slow(False)
    return Visit(*(statistics.median(values) for values in zip(*(vars(one).values() for one in visits), strict=True)))
