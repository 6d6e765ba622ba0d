import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from typing import Any, Mapping, Optional, Sequence, Union

AGE_SECONDS_MAX = 300
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]+={0,2}", re.ASCII)


class WebhookRefused(Exception):
    """The webhook is forged, altered or too old: answer 401, and do nothing."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secrets: Union[str, Sequence[str]], now: Optional[float] = None
) -> dict[str, Any]:
    """Answers the event of a webhook (Standard Webhooks 1.0.0): `type`, `timestamp` and `data`.

    `body` has the bytes as they arrived, `secrets` those of the endpoint: two while one is replaced. `now` is in seconds since 1970.
    Raises WebhookRefused. The same event can arrive twice: ignore a `webhook-id` that was handled before.
    """
    given = {name.lower(): value for name, value in headers.items()}
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if name not in given:
            raise WebhookRefused(f"the header {name} is missing")
    sent_at = given["webhook-timestamp"]
    now = time.time() if now is None else now
    if not re.fullmatch(r"[0-9]{1,12}", sent_at) or abs(now - int(sent_at)) > AGE_SECONDS_MAX:
        raise WebhookRefused("the webhook was not sent within the last five minutes")
    message = f"{given['webhook-id']}.{sent_at}.".encode() + body
    expected = [hmac.new(_key(one), message, hashlib.sha256).digest() for one in _listed(secrets)]
    for signature in given["webhook-signature"].split(" "):
        version, _, text = signature.partition(",")
        if version == "v1" and any(hmac.compare_digest(one, _decoded(text)) for one in expected):
            return json.loads(body)
    raise WebhookRefused("no signature is of the secret of this endpoint")


def _listed(secrets: Union[str, Sequence[str]]) -> Sequence[str]:
    return [secrets] if isinstance(secrets, str) else secrets


def _key(secret: str) -> bytes:
    if not SECRET.fullmatch(secret):
        raise ValueError("a webhook secret is whsec_ and Base64")
    return base64.b64decode(secret[len("whsec_") :])


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
