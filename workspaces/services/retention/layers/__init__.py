"""The registry of layers, in the order in which a sweep takes them."""

from workspaces import extensions
from workspaces.services.retention.layers.archiving import ToArchive
from workspaces.services.retention.layers.artifacts import Artifacts
from workspaces.services.retention.layers.base import COUNTS, Item, Layer, Terms
from workspaces.services.retention.layers.checkpoints import Checkpoints
from workspaces.services.retention.layers.files import Archives, Uploads
from workspaces.services.retention.layers.homes import Homes
from workspaces.services.retention.layers.memory import Memory
from workspaces.services.retention.layers.network import Contacts
from workspaces.services.retention.layers.notes import OldNotes
from workspaces.services.retention.layers.programs import Output, Recordings
from workspaces.services.retention.layers.secrets import ExpiredSecrets
from workspaces.services.retention.layers.setup_layers import SetupLayers
from workspaces.services.retention.layers.snapshots import SNAPSHOT_LAYERS
from workspaces.services.retention.layers.tokens import EndedTokens, UnusedTokens
from workspaces.services.retention.layers.trash import Trash
from workspaces.services.retention.layers.workspaces import UnusedWorkspaces

__all__ = ["COUNTS", "Item", "Layer", "Terms", "layer_named", "layers"]

OWN = [
    ToArchive(),
    UnusedWorkspaces(),
    *SNAPSHOT_LAYERS,
    Homes(),
    Memory(),
    Checkpoints(),
    Output(),
    Recordings(),
    Contacts(),
    OldNotes(),
    Artifacts(),
    Uploads(),
    Archives(),
    SetupLayers(),
    ExpiredSecrets(),
    EndedTokens(),
    UnusedTokens(),
]
TRASH = Trash()  # last: what a sweep moves there for no days goes in the same sweep


def layers() -> list[Layer]:
    return [*OWN, *extensions.retention_layers, TRASH]


def layer_named(name: str) -> Layer:
    """Return the layer. Raise KeyError for a name that no layer has."""
    return {layer.name: layer for layer in layers()}[name]
