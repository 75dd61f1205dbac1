"""How this process connects to Ray: the token, and the address."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

#: variables that name a cluster, or its token
ELSEWHERE = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
#: prefix of addresses of Ray's client
CLIENT = "ray://"

HOW_TO = (
    "Ray listens on every network interface, and without a token anyone who can connect can run code. Set "
    "RAY_AUTH_MODE=token in the environment before Ray is imported, and on every machine before 'ray start', "
    "with the same token everywhere: in RAY_AUTH_TOKEN, in a file named by RAY_AUTH_TOKEN_PATH, or in "
    "~/.ray/auth_token (create one with 'ray get-auth-token --generate')."
)


def import_ray() -> Any:
    """Import Ray with authentication enabled: Ray reads the environment when it is imported."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise RuntimeError(f"RAY_AUTH_MODE={mode} disables token authentication. {HOW_TO}")
    if "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        error.add_note('the Ray engine requires Ray: pip install "maxmargin[ray]"')
        raise
    return ray


def connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start a local one, which creates a token if there is none."""
    if address is not None and not token_mode():
        # With an address Ray never enables it; without one it does if it starts a cluster or finds a token.
        raise RuntimeError(f"Ray was imported without token authentication. {HOW_TO}")
    if address is not None and "://" in address:
        ray.init(address)
        return
    if address in (None, "local") and not any(os.environ.get(name) for name in ELSEWHERE):
        create_token(Path.home() / ".ray" / "auth_token")
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="warning")


def create_token(path: Path) -> None:
    """Create a token that only this user can read, if there is none: everyone could read Ray's at first."""
    from ray._private.authentication import authentication_token_generator

    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(created, "w") as file:
            file.write(authentication_token_generator.generate_new_authentication_token())


def resolved(address: str) -> tuple[str, str]:
    """The IP address of the host if it can be found, and the port."""
    is_client, address = address.startswith(CLIENT), address.removeprefix(CLIENT)
    if is_client and ":" not in address:
        address += ":10001"  # Ray's default
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def proxy_address() -> str | None:
    """The address that Ray's client is connected to; None if this process is part of the cluster."""
    import ray._private.client_mode_hook

    hook: Any = ray._private.client_mode_hook
    if not hook.client_mode_should_convert():
        return None
    import ray.util.client

    client: Any = ray.util.client.ray
    return f"{CLIENT}{client.get_context().client_worker._conn_str}"


def token_mode() -> bool:
    """Whether Ray requires the token in this process."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())
