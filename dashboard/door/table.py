"""The declaration of every verb that a token can ask for; docs/security.md shows this table.

A verb is its method and address as in the OpenAPI document, those of other protocols with their whole address. `WS` is
a WebSocket; a word after its address is what is sent over it. A route that is missing here does not start.
"""

from dashboard.door.verb import GATE, RELAY, Verb, goes_on


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


READS = goes_on("It only reads.")
REPORTS = goes_on("It only reports what was, or what was read.")
ENDS = goes_on("It only ends what the agent itself began.")
CHANGES = Verb()
JUDGED, ASKED = "judged as the same shell call", "asks"
ASKS_GATE = Verb(held="of the verdict", unheld=JUDGED, interrupted=GATE, stopped=GATE, protected="asks", secrets="asks")
REWRITES = Verb(protected="asks")
TAKES_UP = Verb(interrupted=GATE, stopped=GATE)
PEOPLE = Verb(agents=False, runs=False)

_DECLARED = [
    (
        READS,
        """
        GET /me
        GET /events
        GET /workspaces
        GET /workspaces/{key}
        GET /workspaces/{key}/runs
        GET /workspaces/{key}/drift
        GET /workspaces/{key}/size
        GET /workspaces/{key}/operations
        GET /workspaces/{key}/operations/{operation_id}
        GET /workspaces/{key}/commands
        GET /commands/{id}
        GET /commands/{id}/output
        GET /commands/{id}/output/search
        POST /commands/{id}/output/query
        GET /workspaces/{key}/snapshots
        GET /workspaces/{key}/snapshots/{n}
        GET /workspaces/{key}/snapshots/{n}/manifest
        GET /workspaces/{key}/snapshots/{n}/manifest/compare
        GET /workspaces/{key}/snapshots/{n}/screenshot
        GET /workspaces/{key}/runs/{run_id}/manifest
        GET /manifests/key
        GET /workspaces/{key}/notes
        GET /workspaces/{key}/notes/versions
        GET /workspaces/{key}/notes/versions/{n}
        GET /workspaces/{key}/notes/compare
        GET /workspaces/{key}/lessons
        GET /lessons
        GET /lessons/{lesson_id}
        GET /workspaces/{key}/hand-overs
        GET /workspaces/{key}/hand-overs/{hand_over_id}
        GET /workspaces/{key}/beside/{other}
        GET /workspaces/{key}/collisions
        GET /workspaces/{key}/pull-requests
        GET /workspaces/{key}/artifacts
        GET /artifacts
        GET /artifacts/{artifact_id}
        GET /workspaces/{key}/checkpoints
        GET /checkpoints/{checkpoint_id}
        GET /environments
        GET /drivers
        GET /workspaces/{key}/installed
        GET /workspaces/{key}/repository-files
        GET /workspaces/{key}/network
        GET /actions
        GET /actions/{action_id}
        GET /actions/{action_id}/evidence
        GET /actions/{action_id}/attestation
        GET /actions/{action_id}/scopes
        GET /actions/{action_id}/comments
        GET /actions/{action_id}/messages
        GET /agents/{agent}
        GET /documents
        GET /documents/{name}
        GET /tasks
        GET /tasks/{task_id}
        GET /agent-runs
        GET /agent-runs/{agent_run_id}
        GET /agent-runs/{agent_run_id}/model-calls
        GET /sessions
        GET /sessions/{conversation_id}
        GET /sessions/{conversation_id}/messages
        GET /sessions/{conversation_id}/messages/{seq}/text
        GET /sessions/{conversation_id}/export
        GET /grants
        GET /workspaces/{key}/comments
        GET /changes
        GET /schedules
        GET /schedules/{schedule_id}
        GET /schedules/{schedule_id}/runs
        GET /schedules/{schedule_id}/runs/{scheduled_run_id}
        GET /messages
        GET /policy/asks
        GET /aap/v1/instances/{pk}
        GET /aap/v1/requests/{pk}
        GET /aap/v1/{rest}
        POST /aap/v1/{rest}
        PATCH /aap/v1/{rest}
        PUT /aap/v1/{rest}
        DELETE /aap/v1/{rest}
        WS /ws/live
        """,
    ),
    (
        goes_on("It only reads.", secrets="refused, left out of zips"),
        """
        GET /workspaces/{key}/files/
        GET /workspaces/{key}/files/{path}
        """,
    ),
    (
        goes_on("It only reads.", secrets="left out"),
        """
        GET /workspaces/{key}/diff
        GET /workspaces/{key}/patch
        GET /artifacts/{artifact_id}/zip
        """,
    ),
    (
        goes_on("It only reads.", secrets="refused"),
        """
        GET /workspaces/{key}/search
        POST /workspaces/{key}/query
        GET /workspaces/{key}/snapshots/{n}/archive
        """,
    ),
    (
        goes_on("It only reads: terminals of agents, and of people what they shared.", runs=False),
        """
        GET /workspaces/{key}/terminals
        WS /ws/terminals/{id}
        """,
    ),
    (
        goes_on("It only reads.", runs=False),
        """
        GET /e2b/v2/sandboxes
        GET /e2b/sandboxes/{key}
        GET /e2b/envd/health
        POST /e2b/envd/process.Process/List
        POST /e2b/envd/process.Process/Connect
        POST /e2b/envd/process.Process/CloseStdin
        POST /e2b/envd/filesystem.Filesystem/Stat
        POST /e2b/envd/filesystem.Filesystem/ListDir
        POST /e2b/envd/filesystem.Filesystem/WatchDir
        POST /e2b/envd/filesystem.Filesystem/CreateWatcher
        POST /e2b/envd/filesystem.Filesystem/GetWatcherEvents
        POST /e2b/envd/filesystem.Filesystem/RemoveWatcher
        """,
    ),
    (
        goes_on("It only reads.", runs=False, secrets="refused"),
        """
        GET /e2b/envd/files
        """,
    ),
    (
        goes_on("It only ends what the agent itself began.", runs=False),
        """
        POST /e2b/envd/process.Process/SendSignal
        """,
    ),
    (
        Verb(held="medium", unheld="judged as the same shell call; a terminal asks", runs=False),
        """
        POST /e2b/envd/process.Process/Start
        POST /e2b/envd/filesystem.Filesystem/MakeDir
        POST /e2b/envd/filesystem.Filesystem/Move
        """,
    ),
    (
        Verb(protected="asks", secrets="asks", runs=False),
        """
        POST /e2b/envd/files
        POST /e2b/envd/filesystem.Filesystem/Remove
        """,
    ),
    (
        REPORTS,
        """
        POST /actions/{action_id}/outcome
        POST /actions/{action_id}/messages
        POST /messages/{message_id}/read
        POST /sessions/{conversation_id}/messages
        POST /aap/v1/requests/{pk}/outcome
        """,
    ),
    (
        ENDS,
        """
        POST /actions/{action_id}/cancel
        POST /commands/{id}/cancel
        POST /workspaces/{key}/operations/{operation_id}/stop
        DELETE /aap/v1/requests/{pk}
        DELETE /aap/v1/instances/{pk}
        """,
    ),
    (
        ASKS_GATE,
        """
        POST /actions
        POST /actions/{action_id}/consume
        POST /hooks/{agent}
        POST /aap/v1/requests
        POST /aap/v1/requests/{pk}/consume
        """,
    ),
    (
        TAKES_UP,
        """
        POST /actions/{action_id}/continue
        """,
    ),
    (
        Verb(interrupted="", stopped=RELAY, why="An interrupted agent hears of it through its model."),
        """
        POST /models/{provider}/{path}
        """,
    ),
    (
        Verb(held="medium", unheld=JUDGED),
        """
        POST /workspaces/{key}/commands
        """,
    ),
    (
        Verb(held="medium", unheld="refused but in docker, where it has a container of its own"),
        """
        POST /actions/{action_id}/rehearse
        """,
    ),
    (
        Verb(held="medium", unheld=ASKED, runs=False),
        """
        POST /workspaces/{key}/terminals
        """,
    ),
    (
        Verb(held="medium", unheld="refused but in a terminal that a person approved", runs=False),
        """
        WS /ws/terminals/{id} type
        POST /e2b/envd/process.Process/SendInput
        POST /e2b/envd/process.Process/StreamInput
        POST /e2b/envd/process.Process/Update
        """,
    ),
    (
        Verb(protected="asks", secrets="asks"),
        """
        PUT /workspaces/{key}/files/{path}
        DELETE /workspaces/{key}/files/{path}
        """,
    ),
    (
        REWRITES,
        """
        POST /workspaces/{key}/reset
        POST /workspaces/{key}/return
        POST /workspaces/{key}/snapshots/{n}/restore
        """,
    ),
    (
        Verb(protected="refused"),
        """
        POST /workspaces/{key}/revisions
        POST /workspaces/{key}/rebase
        POST /checkpoints/{checkpoint_id}/restore
        """,
    ),
    (
        CHANGES,
        """
        DELETE /workspaces/{key}
        PATCH /workspaces/{key}
        POST /workspaces/{key}/pause
        POST /workspaces/{key}/resume
        POST /workspaces/{key}/stop
        POST /workspaces/{key}/archive
        POST /workspaces/{key}/retry
        POST /workspaces/{key}/untrash
        PUT /workspaces/{key}/awake
        POST /workspaces/{key}/prove
        POST /workspaces/{key}/keep
        POST /workspaces/{key}/snapshots
        POST /workspaces/{key}/snapshots/{n}/archive
        POST /workspaces/{key}/snapshots/{n}/pin
        DELETE /workspaces/{key}/snapshots/{n}/pin
        POST /workspaces/{key}/snapshots/{n}/screenshot
        DELETE /workspaces/{key}/snapshots/{n}/screenshot
        PUT /workspaces/{key}/notes
        POST /workspaces/{key}/lessons
        GET /workspaces/{key}/bundle
        POST /workspaces/{key}/push
        POST /actions/{action_id}/compensate
        POST /workspaces/{key}/signatures
        POST /workspaces/{key}/pull-requests
        POST /workspaces/{key}/artifacts
        POST /workspaces/{key}/checkpoints
        POST /workspaces/{key}/network/allow
        DELETE /workspaces/{key}/network/ports/{port}
        DELETE /workspaces/{key}/network/allowances/{id}
        PUT /documents/{name}
        DELETE /documents/{name}
        """,
    ),
    (
        Verb(runs=False),
        """
        POST /workspaces
        POST /uploads
        POST /workspaces/{key}/fork
        POST /checkpoints/{checkpoint_id}/fork
        POST /e2b/v2/sandboxes
        DELETE /e2b/sandboxes/{key}
        POST /e2b/sandboxes/{key}/pause
        POST /e2b/sandboxes/{key}/timeout
        POST /e2b/v2/sandboxes/{key}/connect
        POST /aap/v1/instances
        PATCH /aap/v1/instances/{pk}
        """,
    ),
    (
        PEOPLE,
        """
        GET /log/export
        GET /log/checkpoints
        GET /oversight
        GET /measures
        GET /metrics
        GET /measures/limits
        PUT /measures/limits/{measure}
        POST /measures/limits/{measure}/lift
        GET /search
        GET /me/sessions
        DELETE /me/sessions
        DELETE /me/sessions/{session_id}
        GET /teams
        POST /teams
        PATCH /teams/{slug}
        POST /teams/{slug}/archive
        POST /teams/{slug}/unarchive
        GET /teams/{slug}/members
        POST /teams/{slug}/members
        PATCH /teams/{slug}/members/{person}
        DELETE /teams/{slug}/members/{person}
        POST /teams/{slug}/members/{person}/purge
        GET /tokens
        POST /tokens
        POST /tokens/revoke-unused
        POST /tokens/{token_id}/revoke
        POST /workspaces/{key}/agents
        DELETE /workspaces/{key}/agents/{agent}
        PUT /workspaces/{key}/terminals/{id}/share
        POST /workspaces/{key}/move
        POST /workspaces/{key}/returned
        GET /hosts
        POST /hosts/{host}/drain
        POST /hosts/{host}/undrain
        POST /hosts/{host}/lost
        POST /workspaces/{key}/renew
        POST /workspaces/{key}/renew/undo
        POST /schedules
        PATCH /schedules/{schedule_id}
        DELETE /schedules/{schedule_id}
        POST /schedules/{schedule_id}/pause
        POST /schedules/{schedule_id}/resume
        POST /schedules/{schedule_id}/run
        POST /schedules/{schedule_id}/runs/{scheduled_run_id}/extend
        POST /schedules/{schedule_id}/runs/{scheduled_run_id}/stop
        DELETE /workspaces/{key}/snapshots/{n}
        POST /workspaces/{key}/snapshots/{n}/untrash
        DELETE /lessons/{lesson_id}
        POST /lessons/{lesson_id}/accept
        POST /lessons/{lesson_id}/decline
        POST /workspaces/{key}/hand-overs
        DELETE /artifacts/{artifact_id}
        DELETE /checkpoints/{checkpoint_id}
        POST /environments
        POST /environments/devcontainer
        POST /workspaces/{key}/installed
        POST /environments/{name}/installed/undo
        POST /environments/{name}/image/pull
        PUT /workspaces/{key}/network/host-ports
        POST /workspaces/{key}/previews
        GET /workspaces/{key}/snapshots/{n}/folder
        POST /workspaces/{key}/snapshots/{n}/folder
        DELETE /workspaces/{key}/snapshots/{n}/folder
        GET /storage
        POST /storage/{work}
        POST /storage/{work}/stop
        GET /retention
        PUT /retention
        GET /retention/preview
        POST /retention/preview
        GET /retention/sweeps
        POST /retention/sweeps
        POST /retention/sweeps/stop
        POST /retention/sweeps/put-off
        GET /retention/holds
        POST /retention/holds
        DELETE /retention/holds/{hold_id}
        GET /secrets
        GET /secrets/{name}
        PUT /secrets/{name}
        DELETE /secrets/{name}
        GET /credentials
        PUT /credentials/{name}
        DELETE /credentials/{name}
        GET /scrubs
        POST /scrubs
        GET /scrubs/{scrub_id}
        POST /scrubs/{scrub_id}/purge
        POST /scrubs/{scrub_id}/stop
        GET /purges
        GET /purges/{receipt_id}
        POST /actions/{action_id}/decision
        POST /actions/{action_id}/snooze
        DELETE /actions/{action_id}/snooze
        POST /actions/{action_id}/pass
        GET /definitions
        POST /definitions
        POST /definitions/import
        GET /definitions/{name}
        GET /definitions/{name}/versions
        GET /definitions/{name}/comparison
        GET /definitions/{name}/export
        POST /tasks
        POST /tasks/{task_id}/choose
        POST /tasks/{task_id}/throw-away
        POST /tasks/{task_id}/bring-back
        POST /tasks/{task_id}/cancel
        POST /tasks/{task_id}/merged
        POST /tasks/{task_id}/pull-request
        POST /tasks/{task_id}/enough
        POST /tasks/{task_id}/follow
        GET /task-sources
        POST /task-sources
        POST /task-sources/{task_source_id}/renew-secret
        DELETE /task-sources/{task_source_id}
        GET /host-accounts
        POST /host-accounts
        DELETE /host-accounts/{host_account_id}
        POST /agent-runs
        POST /agent-runs/{agent_run_id}/messages
        POST /agent-runs/{agent_run_id}/interrupt
        POST /agent-runs/{agent_run_id}/stop
        POST /agent-runs/{agent_run_id}/go-on
        POST /agent-runs/{agent_run_id}/budget
        POST /agent-runs/{agent_run_id}/accept
        POST /agent-runs/{agent_run_id}/discard
        GET /agent-programs
        GET /agent-programs/{agent_program}
        POST /agent-programs/{agent_program}/install
        POST /agent-programs/{agent_program}/try-key
        POST /agent-programs/{agent_program}/trials
        GET /workspaces/{key}/file-history/{path}
        GET /workspaces/{key}/blame/{path}
        POST /actions/{action_id}/grant
        POST /actions/{action_id}/let-read
        POST /grants/{grant_id}/revoke
        POST /workspaces/{key}/comments
        POST /workspaces/{key}/comments/send
        POST /actions/{action_id}/comments
        POST /actions/{action_id}/comments/send
        PATCH /comments/{comment_id}
        DELETE /comments/{comment_id}
        GET /log-targets
        POST /log-targets
        PATCH /log-targets/{target_id}
        DELETE /log-targets/{target_id}
        GET /agents/{agent_id}/day
        GET /unasked
        POST /unasked/looked
        POST /actions/{action_id}/tell
        POST /actions/{action_id}/interrupt
        POST /actions/{action_id}/go-on
        GET /policies
        POST /policies
        GET /policies/current
        POST /policies/diff
        POST /policies/effect
        GET /policies/effect/{replay}
        GET /callbacks
        POST /callbacks/{callback_request_id}/again
        GET /duty
        GET /approver-groups
        POST /approver-groups
        PUT /approver-groups/{approver_group_id}
        DELETE /approver-groups/{approver_group_id}
        GET /me/duty
        PUT /me/duty
        GET /policies/export
        GET /policies/files
        GET /policies/files/{policy_file_id}
        GET /policies/files/{policy_file_id}/diff
        POST /policies/files/{policy_file_id}/adopt
        POST /policies/files/{policy_file_id}/let-go
        POST /policies/import
        POST /policies/try
        GET /policies/versions
        GET /policies/versions/{n}
        GET /policies/versions/{n}/difference
        POST /policies/versions/{n}/restore
        POST /stop
        POST /stop/lift
        """,
    ),
]
VERBS: dict[str, Verb] = {name: verb for verb, names in _DECLARED for name in _lines(names)}
if len(VERBS) != sum(len(_lines(names)) for _, names in _DECLARED):
    raise ValueError("a verb is declared twice")
