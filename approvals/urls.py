"""URLs of the approval pages."""

from django.urls import path

from approvals.pages import actions, alike, connect, grants, hooks, lists, past, policy, rehearsal, rollback, stop

urlpatterns = [
    path("waiting/", lists.waiting, name="waiting"),
    path("waiting/alike/<uuid:pk>/", alike.alike, name="alike"),
    path("actions/", lists.history, name="history"),
    path("actions/<uuid:pk>/", actions.action, name="action"),
    path("actions/<uuid:pk>/approve/", actions.approve, name="action-approve"),
    path("actions/<uuid:pk>/approve/alone/", actions.approve_alone, name="action-approve-alone"),
    path("actions/<uuid:pk>/deny/", actions.deny, name="action-deny"),
    path("actions/<uuid:pk>/extend/", actions.extend, name="action-extend"),
    path("actions/<uuid:pk>/allow/", grants.give, name="action-allow"),
    path("grants/<uuid:pk>/revoke/", grants.revoke, name="grant-revoke"),
    path("actions/<uuid:pk>/edit/", actions.edit, name="action-edit"),
    path("actions/<uuid:pk>/changes/", actions.changes, name="action-changes"),
    path("actions/<uuid:pk>/evidence/", actions.evidence, name="action-evidence"),
    path("actions/<uuid:pk>/push/<int:line>/", actions.push, name="action-push"),
    path("actions/<uuid:pk>/settle/", actions.settle, name="action-settle"),
    path("actions/<uuid:pk>/rehearse/", rehearsal.rehearse, name="action-rehearse"),
    path("actions/<uuid:pk>/rehearsal/", rehearsal.rehearsal, name="action-rehearsal"),
    path("actions/<uuid:pk>/rollback/", rollback.roll_back, name="action-rollback"),
    path("connect/", connect.connect, name="connect"),
    path("connect/token/", connect.make, name="connect-token"),
    path("connect/test/", connect.test, name="connect-test"),
    path("w/<slug:team>/<str:key>/hook/", hooks.put_back, name="workspace-hook"),
    path("w/<slug:team>/<str:key>/held/", hooks.hold, name="workspace-held"),
    path("policy/", policy.policy, name="policy"),
    path("policy/edit/", policy.edit, name="policy-edit"),
    path("policy/past/", past.past, name="policy-past"),
    path("policy/past/trust/", past.trust_one, name="policy-trust"),
    path("stop/", stop.stop, name="stop"),
    path("stop/lift/", stop.lift, name="stop-lift"),
]
