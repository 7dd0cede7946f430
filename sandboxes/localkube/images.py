"""What a kubelet and containerd say of a container's image. Pure.

The order of the questions and the words are those of kubernetes/pkg/kubelet/images and of distribution/reference.
"""

import re
from dataclasses import dataclass

from sandboxes.localkube.objects import Json

_WORDS = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_NAME = re.compile(
    rf"(?:{_HOST}/)?{_WORDS}(?:/{_WORDS})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w+.-]+:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)
_SEVERAL_HASHES = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Refusal:
    """Why an image cannot be used: the container's waiting reason and message, and the event that tells of it."""

    reason: str
    message: str
    event: str
    told: str


def refusal(container: Json, *, present: bool) -> Refusal | None:
    """None when the container can start. `present`: an image of that name exists, here or in the registry."""
    image = container["image"]
    try:
        full = full_name(image)
    except ValueError as error:
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        return Refusal("InvalidImageName", message, "InspectFailed", message)
    if present:
        return None
    if container.get("imagePullPolicy") == "Never":
        message = f'Container image "{image}" is not present with pull policy of Never'
        return Refusal("ErrImageNeverPull", message, "ErrImageNeverPull", message)
    cause = f'failed to resolve reference "{full}": {full}: not found'
    message = f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": {cause}'
    return Refusal("ErrImagePull", message, "Failed", f'Failed to pull image "{image}": {message}')


def always_pulled(container: Json) -> bool:
    """By the container's own policy, or by the default for an image without a version."""
    policy, image = container.get("imagePullPolicy"), container["image"]
    return policy == "Always" or (not policy and full_name(image).endswith(":latest"))


def full_name(image: str) -> str:
    """With registry and tag, as a registry is asked for it; ValueError in the words of the real parser."""
    if _SEVERAL_HASHES.fullmatch(image):
        raise ValueError(f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings")
    host, path = _split(image)
    repository = path.partition(":")[0]
    if repository != repository.lower():
        raise ValueError(f"invalid reference format: repository name ({repository}) must be lowercase")
    match = _NAME.fullmatch(f"{host}/{path}")
    if not match:
        raise ValueError("invalid reference format")
    return f"{host}/{path}" + ("" if match["tag"] or match["digest"] else ":latest")


def _split(image: str) -> tuple[str, str]:
    host, slash, path = image.partition("/")
    if slash and (set(host) & {".", ":"} or host == "localhost" or host != host.lower()):
        return host, path
    return "docker.io", image if slash else f"library/{image}"
