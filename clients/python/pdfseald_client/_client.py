import http.client
import io
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any, BinaryIO, Iterator, Mapping, NoReturn, Optional, Union

Job = dict[str, Any]
"""A job as `GET /v1/jobs/{id}` shows it: `id`, `phase` and so on. Later versions of the service add members."""

PATIENCE_SECONDS = 600.0
REQUEST_TIMEOUT_SECONDS = 300.0
PAUSE_SECONDS_MAX = 60.0
# What a service, or a proxy in front of it, answers while it is away.
PASSING_STATUSES = (429, 502, 503, 504)
CHUNK_BYTES = 1 << 20


class PdfsealError(Exception):
    """All errors of this client."""


class Refused(PdfsealError):
    """The service refused the request, in its own words. `code` is what to act on: https://…/v1/errors lists them all."""

    def __init__(self, status: int, error: Mapping[str, Any], request_id: Optional[str] = None):
        super().__init__(error.get("message", f"the answer has the status {status}"))
        self.status = status
        self.code: str = error.get("code", "unreadable_answer")
        self.doc_url: Optional[str] = error.get("doc_url")
        self.request_id = request_id
        """To be named to support."""


class Unreachable(PdfsealError):
    """No readable answer came in time. The request may have been carried out: repeat it with the same key."""


class JobFailed(PdfsealError):
    """The job failed; it has no receipt."""

    def __init__(self, job: Job):
        error = job.get("error", {})
        super().__init__(error.get("message", "the job failed"))
        self.job = job
        self.code: str = error.get("code", "internal_error")


class StillRunning(PdfsealError):
    """The job had not ended in time. It goes on: ask for it later."""

    def __init__(self, job: Job):
        super().__init__(f"the job {job['id']} is {job['phase']}")
        self.job = job


@dataclass(frozen=True)
class Receipt:
    """A receipt, byte for byte as the service gave it: keep the bytes, not what a parser made of them."""

    bytes: bytes
    content: dict[str, Any]


@dataclass(frozen=True)
class Created:
    job: Job
    replayed: bool
    """Whether an earlier request with this key created the job."""


@dataclass(frozen=True)
class Sealed:
    job: Job
    receipt: Receipt
    replayed: bool


class Client:
    """One pdfseald, and one API key. It can be used by several threads at the same time.

    `url`: where pdfseald listens, with or without `/v1`. `api_key`: None if a client certificate in `context` authenticates.
    `patience`: seconds for which to try again what may succeed later, and to wait for a job. `request_timeout`: seconds of silence
    after which a request counts as lost.
    """

    def __init__(
        self,
        url: str,
        api_key: Optional[str] = None,
        *,
        patience: float = PATIENCE_SECONDS,
        request_timeout: float = REQUEST_TIMEOUT_SECONDS,
        context: Optional[ssl.SSLContext] = None,
    ):
        self._base = re.sub(r"/v1$", "", url.rstrip("/")) + "/v1"
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._patience = patience
        self._request_timeout = request_timeout
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects())

    def seal(self, **request: Any) -> Sealed:
        """Seals and waits for the receipt; takes what create takes. Raises Refused, JobFailed, StillRunning or Unreachable."""
        created = self.create(**{"mode": "blocking", **request})
        job = self.wait(created.job["id"])
        return Sealed(job, self.receipt(job["id"]), created.replayed)

    def create(
        self,
        *,
        visibility: str,
        document: Union[bytes, "os.PathLike[str]", None] = None,
        source: Optional[Mapping[str, str]] = None,
        digests: Optional[Mapping[str, Any]] = None,
        mode: Optional[str] = None,
        purpose: Optional[str] = None,
        customer_reference: Optional[str] = None,
        preserve_metadata: Optional[bool] = None,
        sealed_pdf: Optional[str] = None,
        checksum_sha256: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Created:
        """Creates a job, which is on disk when this returns. Raises Refused or Unreachable.

        Exactly one of: `document` (its bytes, or a path; a file is never in memory as a whole), `source` (`url` and `sha256`), and
        `digests` (`sha256`, `sha512` and `bytes`, for a document that stays with you). `idempotency_key`: 8 to 128 visible ASCII
        characters, unique for the operation, such as the number of an invoice; a random one by default.
        """
        if [document, source, digests].count(None) != 2:
            raise TypeError("name exactly one of document, source and digests")
        fields: dict[str, Any] = {
            "visibility": visibility,
            "mode": mode,
            "purpose": purpose,
            "customer_reference": customer_reference,
            "preserve_metadata": preserve_metadata,
            "sealed_pdf": sealed_pdf,
            "checksum_sha256": checksum_sha256,
        }
        if source is not None:
            path = "/sources/seal"
            fields.update(source_url=source["url"], checksum_sha256=source["sha256"])
        elif digests is not None:
            path = "/digests/seal"
            fields.update(document_sha256=digests["sha256"], document_sha512=digests["sha512"], bytes=digests["bytes"])
        else:
            path = "/forms/seal"
        fields = {name: value for name, value in fields.items() if value is not None}
        key = {"Idempotency-Key": str(uuid.uuid4()) if idempotency_key is None else idempotency_key}
        if document is None:
            body: _Body = _Json(fields)
        else:
            body = _Form(fields, document)
        answer = self._ask(path, body, key)
        return Created(answer.json, answer.headers.get("Idempotent-Replayed") == "true")

    def job(self, job_id: str) -> Job:
        """The job as it is now."""
        return self._ask(_path_of(job_id)).json

    def wait(self, job_id: str) -> Job:
        """Returns the completed job. Raises JobFailed, or StillRunning when the patience is over."""
        until = time.monotonic() + self._patience
        while True:
            answer = self._ask(_path_of(job_id))
            job = answer.json
            if job["phase"] == "completed":
                return job
            if job["phase"] == "failed":
                raise JobFailed(job)
            pause = _pause_of(answer.headers, 0)
            if time.monotonic() + pause > until:
                raise StillRunning(job)
            time.sleep(pause)

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """All jobs that this key can read and the filters fit, newest first: `phase`, `visibility`, `document_sha256`,
        `customer_reference`, `created_from`, `created_to` (RFC 3339), and `limit`, the length of a page."""
        query = {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._ask(f"/jobs?{urllib.parse.urlencode(query)}").json
            yield from page["jobs"]
            if "next_cursor" not in page:
                return
            query["cursor"] = page["next_cursor"]

    def receipt(self, job_id: str) -> Receipt:
        answer = self._ask(f"{_path_of(job_id)}/receipt.json")
        return Receipt(answer.bytes, answer.json)

    def sealed_pdf(self, job_id: str) -> bytes:
        """The document with its receipt inside, if the request asked for it."""
        return self._ask(f"{_path_of(job_id)}/sealed.pdf", is_json=False).bytes

    def _ask(
        self,
        path: str,
        body: "Optional[_Body]" = None,
        headers: Mapping[str, str] = {},
        is_json: bool = True,
    ) -> "_Answer":
        """Sends the request, again after failures that may pass, until the patience is over."""
        until = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                return self._try(path, body, headers, is_json)
            except _Passing as passing:
                pause = _pause_of(passing.headers, attempt)
                if time.monotonic() + pause > until:
                    raise passing.error from passing.__cause__
            time.sleep(pause)
            attempt += 1

    def _try(self, path: str, body: "Optional[_Body]", headers: Mapping[str, str], is_json: bool) -> "_Answer":
        every = {**self._headers, **headers, **({} if body is None else body.headers)}
        data = None if body is None else body.open()
        request = urllib.request.Request(self._base + path, data, every)
        try:
            with self._opener.open(request, timeout=self._request_timeout) as response:
                content = response.read()
                given = response.headers
        except urllib.error.HTTPError as error:
            _refuse(error)
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(Unreachable(f"{self._base} gave no answer: {error}"), {}) from error
        finally:
            if data is not None:
                data.close()
        if not is_json:
            return _Answer(given, content, {})
        value = _object_in(content)
        if value is None:
            raise _Passing(Unreachable(f"{self._base} answered with what is not JSON"), given)
        return _Answer(given, content, value)


@dataclass(frozen=True)
class _Answer:
    headers: Mapping[str, str]
    bytes: bytes
    json: dict[str, Any]


class _Passing(Exception):
    """A failure that may pass."""

    def __init__(self, error: PdfsealError, headers: Mapping[str, str]):
        super().__init__()
        self.error = error
        self.headers = headers


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key must not reach another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Body:
    headers: dict[str, str]

    def open(self) -> BinaryIO:
        raise NotImplementedError


class _Json(_Body):
    def __init__(self, fields: Mapping[str, Any]):
        self._bytes = json.dumps(fields).encode()
        self.headers = {"Content-Type": "application/json", "Content-Length": str(len(self._bytes))}

    def open(self) -> BinaryIO:
        return io.BytesIO(self._bytes)


class _Form(_Body):
    """The fields, then the document: the service must know them before it receives the document (RFC 7578)."""

    def __init__(self, fields: Mapping[str, Any], document: "Union[bytes, os.PathLike[str]]"):
        boundary = uuid.uuid4().hex
        head = [_part(boundary, name, _text(value)) for name, value in fields.items()]
        disposition = b'Content-Disposition: form-data; name="file"; filename="document.pdf"\r\n'
        head.append(f"--{boundary}\r\n".encode() + disposition + b"Content-Type: application/pdf\r\n\r\n")
        self._head, self._tail = b"".join(head), f"\r\n--{boundary}--\r\n".encode()
        self._document = document
        size = len(document) if isinstance(document, bytes) else os.stat(document).st_size
        self.headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(self._head) + size + len(self._tail)),
        }

    def open(self) -> BinaryIO:
        document = self._document
        file = io.BytesIO(document) if isinstance(document, bytes) else open(document, "rb")
        return _Joined([io.BytesIO(self._head), file, io.BytesIO(self._tail)])  # type: ignore[return-value]


class _Joined:
    """Files, one after the other, as http.client reads a body."""

    def __init__(self, files: "list[BinaryIO]"):
        self._files = files

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        for file in self._files:
            chunk = file.read(size)
            if chunk:
                return chunk
        return b""

    def close(self) -> None:
        for file in self._files:
            file.close()


def _part(boundary: str, name: str, value: str) -> bytes:
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path_of(job_id: str) -> str:
    return f"/jobs/{urllib.parse.quote(job_id, safe='')}"


def _object_in(content: bytes) -> Optional[dict[str, Any]]:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refuse(answer: urllib.error.HTTPError) -> NoReturn:
    try:
        body = _object_in(answer.read()) or {}
    except (OSError, http.client.HTTPException):
        body = {}
    refused = Refused(answer.code, body.get("error", {}), body.get("request_id"))
    if answer.code in PASSING_STATUSES or refused.code == "idempotency_in_progress":
        raise _Passing(refused, answer.headers)
    raise refused


def _pause_of(headers: Mapping[str, str], attempt: int) -> float:
    """As long as the service says, else one, two, four seconds and so on."""
    said = headers.get("Retry-After") or ""
    return float(said) if re.fullmatch(r"[0-9]{1,6}", said) else min(2.0**attempt, PAUSE_SECONDS_MAX)
