"""A client of pdfseald for Python 3.9 or newer. It needs nothing but Python.

What may succeed later is sent again with the same Idempotency-Key, so a document is never sealed twice by a retry.
"""

from ._client import Client, JobFailed, PdfsealError, Receipt, Refused, StillRunning, Unreachable
from ._webhook import WebhookRefused, verify_webhook

__all__ = [
    "Client",
    "JobFailed",
    "PdfsealError",
    "Receipt",
    "Refused",
    "StillRunning",
    "Unreachable",
    "WebhookRefused",
    "verify_webhook",
]
