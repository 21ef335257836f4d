"""Addresses of the Agent Approval Protocol, which its clients know below the desk's /aap."""

from django.urls import path

from approvals.protocols.aap import views

urlpatterns = [
    path("v1/instances", views.register, name="aap-instances"),
    path("v1/instances/<uuid:pk>", views.instance, name="aap-instance"),
    path("v1/requests", views.ask, name="aap-requests"),
    path("v1/requests/<uuid:pk>", views.one, name="aap-request"),
    path("v1/requests/<uuid:pk>/consume", views.consume, name="aap-consume"),
    path("v1/requests/<uuid:pk>/outcome", views.outcome, name="aap-outcome"),
    path("v1/<path:rest>", views.unknown_address, name="aap-unknown-address"),
]
