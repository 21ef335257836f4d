"""Where questions wait, are answered, and are remembered."""

from django.urls import path

from approvals import connect, grant_pages, policy_page, stop_page, views

urlpatterns = [
    path("waiting/", views.waiting, name="waiting"),
    path("actions/", views.history, name="history"),
    path("actions/<uuid:pk>/", views.action, name="action"),
    path("actions/<uuid:pk>/approve/", views.approve, name="action-approve"),
    path("actions/<uuid:pk>/deny/", views.deny, name="action-deny"),
    path("actions/<uuid:pk>/extend/", views.extend, name="action-extend"),
    path("actions/<uuid:pk>/allow/", grant_pages.give, name="action-allow"),
    path("grants/<uuid:pk>/revoke/", grant_pages.revoke, name="grant-revoke"),
    path("actions/<uuid:pk>/edit/", views.edit, name="action-edit"),
    path("actions/<uuid:pk>/changes/", views.changes, name="action-changes"),
    path("actions/<uuid:pk>/evidence/", views.evidence, name="action-evidence"),
    path("actions/<uuid:pk>/settle/", views.settle, name="action-settle"),
    path("actions/<uuid:pk>/rollback/", views.rollback, name="action-rollback"),
    path("connect/", connect.connect, name="connect"),
    path("connect/token/", connect.make, name="connect-token"),
    path("connect/test/", connect.test, name="connect-test"),
    path("policy/", policy_page.policy, name="policy"),
    path("policy/edit/", policy_page.edit, name="policy-edit"),
    path("stop/", stop_page.stop, name="stop"),
    path("stop/lift/", stop_page.lift, name="stop-lift"),
]
