"""The table of a day: verbs with their times and refusals, faults, and what each part needed."""

from collections import Counter, defaultdict

from bench.day.check_product import by_verb, percentile


def lines(day, evidence, findings) -> list[str]:
    """Return the whole report; the findings last, each with the way to repeat it."""
    where = f"{day.hosts} hosts" if day.hosts > 1 else day.database or "sqlite"
    found = [f"seed {day.seed}, {day.minutes:g} minutes on {where}, {day.sizes[0]} agents"]
    found += ["", *verbs(evidence), "", *faults(evidence), *[f"    {words}" for words in day.faults.said]]
    found += ["", *parts(evidence), "", *counts(evidence), ""]
    if not findings:
        return [*found, "no findings"]
    grouped = defaultdict(list)
    for each in findings:
        grouped[each.rule].append(each.words)
    for rule, words in grouped.items():
        found.append(f"FINDING {rule}: {len(words)}")
        found += [f"    {each}" for each in words[:15]]
    return [*found, f"{len(findings)} findings. Again: {day.again}"]


def verbs(evidence) -> list[str]:
    statuses = defaultdict(Counter)
    for each in evidence.seen:
        if each.seconds:
            statuses[each.verb][each.status] += 1
    calm, found = by_verb(evidence), [f"{'verb':24} {'count':>6} {'p50 s':>7} {'p99 s':>7} {'most':>7}  other statuses"]
    for verb, seconds in sorted(calm.items()):
        others = {status: n for status, n in sorted(statuses[verb].items()) if not 200 <= status < 300}
        figures = f"{percentile(seconds, 50):7.2f} {percentile(seconds, 99):7.2f} {max(seconds):7.2f}"
        found.append(f"{verb:24} {len(seconds):6} {figures}  {', '.join(f'{n} x {s}' for s, n in others.items())}")
    return found


def faults(evidence) -> list[str]:
    began = min((each.at for each in evidence.seen), default=0)
    found = ["planned faults (seconds until /readyz said 200 again)"]
    for each in evidence.faults:
        back = f"{each.back - each.began:6.1f}" if each.back else " never"
        found.append(f"    {each.began - began:6.0f} s  {each.kind:22} {back}")
    return found


def parts(evidence) -> list[str]:
    found = [f"{'part':8} {'processes':>9} {'MiB first, last, most':>24} {'files':>16} {'threads':>14}"]
    for part in ("web", "runner", "queue"):
        samples = [each for each in evidence.samples if each.part == part]
        if samples:
            figures = [
                f"{values[0]:.0f}, {values[-1]:.0f}, {max(values):.0f}"
                for values in ([getattr(each, name) for each in samples] for name in ("mib", "files", "threads"))
            ]
            processes = len({each.pid for each in samples})
            found.append(f"{part:8} {processes:>9} {figures[0]:>24} {figures[1]:>16} {figures[2]:>14}")
    return found


def counts(evidence) -> list[str]:
    status = Counter(row["status"] for row in evidence.rows["actions"])
    ran = sum(map(len, evidence.traces.values()))
    return [
        f"actions: {', '.join(f'{n} {name}' for name, n in sorted(status.items()))}",
        f"{ran} traces of runs, {len(evidence.rows['events'])} events, {len(evidence.rows['snapshots'])} snapshots",
    ]
