"""Blocks `[[when]]` of a policy: when each condition holds, what is refused, and that what tightens never loosens."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.policy import PolicyError, classify, load_policy, read_policy
from approvals.policy.serve import check
from approvals.policy.verdict import TIERS

WHO = {"agent": "mia", "environment": "shop", "labels": {"team": "payments"}, "at": "2026-11-30T12:00:00+00:00"}
TARGETS = '[targets]\nproduction = ["kube:prod-*", "branch:main"]\nstaging = ["kube:staging", "branch:staging"]\n'


def tier(text, tool, arguments, **context):
    return classify(tool, arguments, policy=read_policy(text), context=context).tier


def when(condition, rules='high = ["calls"]'):
    return f"{TARGETS}[[when]]\n{condition}\n{rules}\n"


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        ('agent = "mia"', {}, True),
        ('agent = "noa"', {}, False),
        ('agent = ["noa", "mi*"]', {}, True),
        ('agent = "!mia"', {}, False),
        ('agent = "!noa"', {}, True),
        ('agent = "noa"', {"agent": None}, True),
        ('agent = "!mia"', {"agent": None}, True),
        ('environment = "shop"', {}, True),
        ('environment = "sh*"', {"environment": "blog"}, False),
        ('environment = "shop"', {"environment": None}, True),
        ('isolation = "pod-runc"', {"isolation": "pod-runc"}, True),
        ('isolation = "pod-runc"', {"isolation": "pod-gvisor"}, False),
        ('isolation = ["!pod-gvisor", "!pod-kata", "!microvm"]', {"isolation": "pod-gvisor"}, False),
        ('isolation = "pod-*"', {"isolation": "container"}, False),
        ('isolation = "pod-*"', {"isolation": None}, True),
        ('label = "team:payments"', {}, True),
        ('label = "team:*"', {"labels": {}}, False),
        ('label = "!team:payments"', {}, False),
        ('label = "team:web"', {"labels": None}, True),
        ('hours = "Mon-Fri 09:00-18:00"', {}, True),
        ('hours = "Sat,Sun 09:00-18:00"', {}, False),
        ('hours = "Mon 13:00-18:00 Europe/Berlin"', {}, True),
        ('hours = "Mon 12:30-12:50 Europe/Berlin"', {}, False),
        ('hours = "!Mon-Fri 09:00-18:00"', {}, False),
        ('hours = "22:00-06:00"', {"at": "2026-12-01T03:00:00Z"}, True),
        ('hours = "Mon 22:00-06:00"', {"at": "2026-12-01T03:00:00Z"}, True),
        ('hours = "Tue 22:00-06:00"', {"at": "2026-12-01T03:00:00Z"}, False),
        ('hours = "Sat 09:00-10:00"', {"at": None}, True),
        ('agent = "mia"\nenvironment = "blog"', {}, False),
    ],
)
def test_a_rule_that_makes_calls_wait_applies_where_its_condition_may_hold(condition, context, holds):
    known = {key: value for key, value in (WHO | context).items() if value is not None}
    assert (tier(when(condition), "Read", {"file_path": "a.py"}, **known) == "high") is holds


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        ('agent = "mia"', {}, True),
        ('agent = "mia"', {"agent": None}, False),
        ('agent = "!noa"', {"agent": None}, False),
        ('environment = "shop"', {"environment": None}, False),
        ('label = "team:payments"', {"labels": None}, False),
        ('hours = "Mon 09:00-18:00"', {"at": None}, False),
        ('hours = "Mon 09:00-18:00"', {}, True),
    ],
)
def test_a_rule_that_lets_calls_run_applies_only_where_its_condition_is_certain(condition, context, holds):
    known = {key: value for key, value in (WHO | context).items() if value is not None}
    text = when(condition, 'low = ["Bash(git push origin topic)"]')
    assert (tier(text, "Bash", {"command": "git push origin topic"}, **known) == "low") is holds


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        ('amount = "<= 10"', {"amount": 5}, "low"),
        ("amount = 10", {"amount": 10}, "low"),
        ('amount = "< 10"', {"amount": 10}, "high"),
        ('amount = "<= 10 EUR"', {"amount": 5, "currency": "EUR"}, "low"),
        ('amount = "<= 10 EUR"', {"amount": 5, "currency": "USD"}, "high"),
        ('amount = "<= 10 EUR"', {"amount": 5}, "high"),
        ('amount = "<= 10"', {"amount": "5"}, "low"),
        ('amount = "<= 10"', {"amount": "five"}, "high"),
        ('amount = "<= 10"', {"amount": 5000}, "high"),
        ('amount = "<= 10"', {"charge": "ch_1"}, "high"),
    ],
)
def test_an_amount_has_to_be_certain_to_let_money_move(condition, arguments, expected):
    assert tier(when(condition, 'low = ["mcp__pay__refund"]'), "mcp__pay__refund", arguments) == expected


def test_an_amount_that_is_not_certain_needs_two_people_where_a_large_one_does():
    text = when('amount = "> 100"', 'critical = ["mcp__pay__*"]')
    assert tier(text, "mcp__pay__refund", {"charge": "ch_1"}) == "critical"
    assert tier(text, "mcp__pay__refund", {"amount": 50}) == "high"
    assert tier(text, "mcp__pay__list_charges", {}) == "high"


@pytest.mark.parametrize(
    ("condition", "command", "context", "holds"),
    [
        ('branch = "main"', "git push origin main", {}, True),
        ('branch = "main"', "git push origin topic", {}, False),
        ('branch = "main"', "git push", {}, True),
        ('branch = "main"', "git push", {"branch": "topic"}, False),
        ('branch = "!topic/*"', "git push origin topic/a", {}, False),
        ('branch = "main"', "git status", {"branch": "main"}, True),
        ('branch = "main"', "git status", {}, False),
        ('host = "*.example.com"', "curl https://api.example.com/x", {}, True),
        ('host = "*.example.com"', "curl https://api.example.org/x", {}, False),
        ('host = "api.example.com"', 'curl "$URL"', {}, True),
        ('host = "api.example.com"', "ls", {}, False),
        ('target = "production"', "kubectl --context prod-eu delete pod x", {}, True),
        ('target = "!staging"', "kubectl --context prod-eu delete pod x", {}, True),
        ('target = "!staging"', "kubectl --context staging delete pod x", {}, False),
        ('target = "!staging"', "kubectl delete pod x", {}, True),
        ('target = "!staging"', "ls", {}, False),
        ('target = "*"', "kubectl --context dev delete pod x", {}, False),
        ('target = "production"', "kubectl delete pod x", {"targets": ["staging"]}, False),
        ('target = "production"', "kubectl delete pod x", {"targets": ["staging", "production"]}, True),
        ('target = "production"', "kubectl --context prod-eu delete pod x", {"targets": "staging"}, True),
        ('target = "production"', 'eval "$(printf x)"; if', {}, True),
    ],
)
def test_conditions_about_what_a_command_does(condition, command, context, holds):
    found = tier(when(condition, 'forbidden = ["calls"]'), "Bash", {"command": command}, **context)
    assert (found == "forbidden") is holds


def test_targets_of_the_context_let_a_call_run_that_names_none_if_there_is_only_one():
    text = when('target = "staging"', 'low = ["Bash(kubectl apply *)"]')
    command = {"command": "kubectl apply -f x.yml"}
    found = [tier(text, "Bash", command, targets=each) for each in (["staging"], ["staging", "production"], [], None)]
    assert found == ["low", "high", "high", "high"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("when = 1", r"written as \[\[when\]\] entries"),
        ('[[when]]\nlow = ["Read"]', "Entry 1 of .*it has no condition"),
        ('[[when]]\nagent = "a"', "it has no rules and no mode"),
        ('[[when]]\nagent = "a"\nhigh = []', "it has no rules and no mode"),
        ('[[when]]\nagnet = "a"\nhigh = ["calls"]', "'agnet' is no condition"),
        ('[[when]]\nagent = ""\nhigh = ["calls"]', "agent must be a text or a list of texts, and not empty"),
        ('[[when]]\nagent = []\nhigh = ["calls"]', "agent must be a text"),
        ('[[when]]\nagent = 1\nhigh = ["calls"]', "agent must be a text"),
        ('[[when]]\nagent = ["a", "!a"]\nhigh = ["calls"]', "agent can never be met"),
        ('[[when]]\nlabel = "payments"\nhigh = ["calls"]', "label is written as key:value"),
        ('[[when]]\ntarget = "production"\nhigh = ["calls"]', "there is no target production"),
        ('[[when]]\namount = "lots"\nhigh = ["calls"]', "amount is a number"),
        ('[[when]]\namount = true\nhigh = ["calls"]', "amount is a number"),
        ('[[when]]\nhours = "always"\nhigh = ["calls"]', "is no span of hours"),
        ('[[when]]\nhours = "25:00-26:00"\nhigh = ["calls"]', "is no time of day"),
        ('[[when]]\nhours = "9-9"\nhigh = ["calls"]', "never met"),
        ('[[when]]\nhours = "Mon-Xyz 9-10"\nhigh = ["calls"]', "are no days"),
        ('[[when]]\nhours = "9-10 Mars/Base"\nhigh = ["calls"]', "is no time zone"),
        ('[[when]]\nagent = "a"\nmode = "wild"', "Unknown mode 'wild'"),
        ('[[when]]\nagent = "a"\nlow = ["writes"]', "writes, where agent a in low needs a target|needs a target"),
        ('[[when]]\nagent = "a"\nlow = ["Bash(env *)"]', "would allow everything"),
        ('high = ["writes"]', r"belongs into a block \[\[when\]\]"),
        ("[floor]\n", "The table floor has no rules"),
        ('[floor]\nlow = ["Read"]', "it can only tighten"),
        ('[[floor.when]]\nagent = "a"\nlow = ["Read"]', "can only tighten"),
    ],
)
def test_what_can_never_decide_or_makes_no_sense_is_refused(text, says):
    with pytest.raises(PolicyError, match=says):
        read_policy(text)


def test_a_mode_holds_for_the_agents_and_environments_of_its_block():
    text = 'mode = "commands"\n[[when]]\nagent = "bold"\nmode = "irreversible"\n'
    text += '[[when]]\nagent = "new"\nmode = "everything"\n'
    read, run = ("Read", {"file_path": "a.py"}), ("Bash", {"command": "pytest -q"})
    found = {agent: [tier(text, *call, agent=agent) for call in (read, run)] for agent in ("bold", "new", "other")}
    assert found == {"bold": ["low", "medium"], "new": ["high", "high"], "other": ["low", "high"]}
    assert [tier(text, *call) for call in (read, run)] == ["high", "high"]


def test_the_tests_of_a_policy_say_who_asks_and_meet_no_condition_otherwise():
    block = '[[when]]\nagent = "new"\nhigh = ["calls"]\n'
    test = '[[tests]]\ntool = "Read"\ninput = {file_path = "a.py"}\n'
    load_policy(f'{block}{test}tier = "low"\n')
    load_policy(f'{block}{test}context = {{agent = "new"}}\ntier = "high"\n')
    with pytest.raises(PolicyError, match="is high, not low"):
        load_policy(f'{block}{test}context = {{agent = "new"}}\ntier = "low"\n')


def test_the_floor_of_a_team_holds_below_the_policy_of_an_environment():
    team = read_policy(
        f'{TARGETS}[floor]\nhigh = ["Bash(make *)"]\nmode = "commands"\n'
        '[[floor.when]]\ntarget = "production"\ncritical = ["writes"]\n'
        '[[when]]\nagent = "mia"\nforbidden = ["Bash(rm *)"]\nhigh = ["Read"]\n'
    )
    own = read_policy(
        'low = ["Bash(make test)", "Bash(rm x)", "Bash(pytest -q)", "Bash(kubectl --context prod-1 apply)"]'
    )
    both = own.above(team)
    asked = ("make test", "rm x", "pytest -q", "npm test", "kubectl --context prod-1 apply")
    found = {command: classify("Bash", {"command": command}, policy=both, context=WHO).tier for command in asked}
    assert found == dict(zip(asked, ("high", "forbidden", "low", "high", "critical"), strict=True))
    assert classify("Read", {"file_path": "a.py"}, policy=both, context=WHO).tier == "low"


def test_built_in_tiers_stay_whatever_a_block_allows():
    text = when('target = "staging"', 'low = ["writes"]')
    for command, stays in (
        ("kubectl --context staging delete namespace web", "critical"),
        ("kubectl --context staging apply -f x.yml && rm -rf /", "forbidden"),
    ):
        assert tier(text, "Bash", {"command": command}) == stays


def test_a_rule_of_a_block_is_named_with_its_conditions():
    text = when('target = "production"', 'critical = ["writes"]')
    command = {"command": "kubectl --context prod-eu apply -f x.yml"}
    verdict = classify("Bash", command, policy=read_policy(text))
    assert verdict.rule == "writes, where target production"
    assert "(rule writes, where target production)" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ('low = ["Bash(kubectl --context staging apply *)"]', "decides about nothing but `kubectl --context staging"),
        ('low = ["Bash(kubectl apply *)"]', "decides about nothing but `kubectl apply`"),
        ('low = ["Bash(unheard-of *)"]', "Bash(unheard-of *) in low never decides"),
        (when('target = "staging"', 'high = ["Edit(x/**)"]'), "calls of Edit have no target"),
        (when('amount = "> 5"', 'high = ["Bash(stripe *)"]'), "calls of Bash have no amount"),
        ('forbidden = ["Bash(make *)"]\n' + when('agent = "a"', 'low = ["Bash(make test)"]'), "comes first"),
        ('low = ["Bash(git log *)", "Bash(npm test *)", "Bash(git push *)"]', None),
        (when('target = "staging"', 'low = ["Bash(kubectl apply *)", "writes"]'), None),
    ],
)
def test_saving_warns_of_rules_that_never_decide(text, warns):
    found = check(text)["warnings"]
    assert (found == []) if warns is None else (len(found) == 1 and warns in found[0])


CALLS = [
    ("Bash", {"command": "kubectl --context prod-eu apply -f x.yml"}),
    ("Bash", {"command": "kubectl --context staging apply -f x.yml"}),
    ("Bash", {"command": "kubectl apply -f x.yml"}),
    ("Bash", {"command": "git push origin staging"}),
    ("Bash", {"command": "pytest -q && git push origin main"}),
    ("Bash", {"command": "rm -rf /"}),
    ("mcp__deploy__release", {"environment": "staging"}),
    ("mcp__pay__refund", {"amount": 5}),
    ("Edit", {"file_path": "src/a.py", "new_string": "x"}),
    ("WebFetch", {"url": "https://api.example.com/x"}),
]
CONDITIONS = ['agent = "mia"', 'target = "staging"', 'target = "!staging"', 'branch = "main"', 'hours = "9-17"']
CONDITIONS += ['label = "team:payments"', 'amount = "<= 10"', 'host = "*.example.com"', 'environment = "!shop"']
TIGHTENING = ['high = ["calls"]', 'critical = ["writes"]', 'forbidden = ["Bash(kubectl *)"]', 'mode = "everything"']
LOOSENING = ['low = ["mcp__deploy__*"]', 'low = ["Bash(git push *)"]', 'medium = ["Bash(kubectl apply *)"]']
LOOSENING += ['mode = "irreversible"']
CONTEXTS = [{}, WHO, WHO | {"agent": "noa", "labels": {}}, {"agent": "mia", "targets": ["staging"]}]
blocks = st.lists(st.tuples(st.sampled_from(CONDITIONS), st.sampled_from(TIGHTENING + LOOSENING)), max_size=4)


def of_blocks(listed):
    return f'mode = "commands"\n{TARGETS}' + "".join(f"[[when]]\n{where}\n{rules}\n" for where, rules in listed)


def all_tiers(text):
    policy = read_policy(text)
    pairs = itertools.product(CALLS, CONTEXTS)
    return [TIERS.index(classify(*call, policy=policy, context=context).tier) for call, context in pairs]


@settings(max_examples=40, deadline=None)
@given(listed=blocks, where=st.sampled_from(CONDITIONS), rules=st.sampled_from(TIGHTENING))
def test_a_block_that_tightens_never_loosens(listed, where, rules):
    before, after = all_tiers(of_blocks(listed)), all_tiers(of_blocks([*listed, (where, rules)]))
    assert all(new >= old for old, new in zip(before, after, strict=True))


@settings(max_examples=40, deadline=None)
@given(listed=blocks, order=st.randoms())
def test_the_order_of_blocks_makes_no_difference(listed, order):
    other = list(listed)
    order.shuffle(other)
    assert all_tiers(of_blocks(listed)) == all_tiers(of_blocks(other))


@settings(max_examples=30, deadline=None)
@given(listed=blocks)
def test_no_block_lets_run_what_the_floor_makes_wait(listed):
    floor = read_policy(f'{TARGETS}[[floor.when]]\ntarget = "production"\ncritical = ["writes"]\n')
    policy = read_policy(of_blocks(listed)).above(floor)
    for command in ("kubectl --context prod-eu apply -f x.yml", "kubectl apply -f x.yml", "git push origin main"):
        for context in CONTEXTS[:3]:
            found = classify("Bash", {"command": command}, policy=policy, context=context).tier
            assert found in ("critical", "forbidden")


def test_somebody_or_nobody_on_duty():
    blocks = 'on_duty = false\nforbidden = ["Bash(make deploy)"]', 'on_duty = true\nlow = ["Bash(make deploy)"]'
    policy = load_policy("".join(f"[[when]]\n{block}\n" for block in blocks))

    def tier(**context):
        return classify("Bash", {"command": "make deploy"}, policy=policy, context=context).tier

    assert (tier(on_duty=True), tier(on_duty=False)) == ("low", "forbidden")
    assert tier() == "forbidden"  # not known: possibly nobody, and not for sure somebody
    assert tier(on_duty="yes") == "forbidden"


@pytest.mark.parametrize("value", ['"true"', "1", "[]"])
def test_on_duty_is_true_or_false(value):
    with pytest.raises(PolicyError, match="on_duty is true, while somebody is on duty"):
        load_policy(f'[[when]]\non_duty = {value}\nhigh = ["calls"]')


PUSH, WRITE, GO = "git push origin main", "echo 1 > a.txt", "curl -X POST https://example.org/pay"


@pytest.mark.parametrize(
    ("wanted", "command", "context", "holds"),
    [
        ('"not"', PUSH, {}, True),
        ('"outside"', PUSH, {}, True),
        ('"inside"', PUSH, {}, False),
        ('"not"', PUSH, {"undo": "outside"}, False),
        ('"outside"', PUSH, {"undo": "outside"}, True),
        ('"outside"', GO, {"undo": "not"}, False),
        ('["outside", "not"]', GO, {}, True),
        ('"inside"', WRITE, {}, True),
        ('"not"', WRITE, {"undo": "not"}, False),  # a snapshot undoes it, whatever somebody says
    ],
)
def test_what_undoes_a_call_is_a_condition(wanted, command, context, holds):
    assert (
        tier(when(f"undo = {wanted}", 'critical = ["calls"]'), "Bash", {"command": command}, **context) == "critical"
    ) is holds


@pytest.mark.parametrize(("context", "holds"), [({}, False), ({"undo": "not"}, False), ({"undo": "outside"}, True)])
def test_a_way_back_that_is_not_known_yet_lets_nothing_run(context, holds):
    text = when('undo = "outside"', 'low = ["Bash(git push origin topic)"]')
    assert (tier(text, "Bash", {"command": "git push origin topic"}, **context) == "low") is holds


@pytest.mark.parametrize(("wanted", "held"), [('"inside"', "critical"), ('"not"', "high")])
def test_tools_of_other_kinds_are_undone_or_not_as_well(wanted, held):
    text = when(f"undo = {wanted}", 'critical = ["calls"]')
    assert tier(text, "WebFetch", {"url": "https://example.org/"}) == ("critical" if wanted == '"not"' else "high")
    assert (tier(text, "Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}) == "critical") is (
        held == "critical"
    )


@pytest.mark.parametrize("wanted", ['"maybe"', "[]", "true", '"!inside"'])
def test_another_value_of_undo_is_refused_in_words(wanted):
    with pytest.raises(PolicyError, match="undo is one of inside, outside, not"):
        load_policy(when(f"undo = {wanted}"))
