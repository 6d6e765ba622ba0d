"""Runs the cases of clients/conformance: one on each line of the input, and its answer on a line of the output."""

import hashlib
import json
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import pdfseald_client as pdfseal  # noqa: E402

KINDS = {
    pdfseal.Refused: "refused",
    pdfseal.Unreachable: "unreachable",
    pdfseal.JobFailed: "job_failed",
    pdfseal.StillRunning: "still_running",
    pdfseal.WebhookRefused: "webhook_refused",
}


def run(case):
    given = case["with"]
    client = pdfseal.Client(case["url"], case.get("api_key"), patience=case["patience"])
    if "document" in given:
        given = {**given, "document": given["document"].encode()}
    if case["do"] == "create":
        created = client.create(**given)
        return {"job": created.job, "replayed": created.replayed}
    if case["do"] == "seal":
        sealed = client.seal(**given)
        return {"job": sealed.job, "receipt": sealed.receipt.content, "replayed": sealed.replayed}
    if case["do"] == "job":
        return {"job": client.job(given["id"])}
    if case["do"] == "wait":
        return {"job": client.wait(given["id"])}
    if case["do"] == "receipt":
        receipt = client.receipt(given["id"])
        return {"receipt": receipt.content, "sha256": hashlib.sha256(receipt.bytes).hexdigest()}
    if case["do"] == "sealed_pdf":
        return {"bytes": len(client.sealed_pdf(given["id"]))}
    if case["do"] == "jobs":
        return {"ids": [job["id"] for job in client.jobs(**given)]}
    if case["do"] == "webhook":
        return {"type": pdfseal.verify_webhook(given["body"].encode(), given["headers"], given["secrets"])["type"]}
    raise ValueError(case["do"])


for line in sys.stdin:
    try:
        answer = {"gives": run(json.loads(line))}
    except Exception as error:
        kind = KINDS.get(type(error), traceback.format_exc())
        told = {"kind": kind, "code": getattr(error, "code", None), "status": getattr(error, "status", None)}
        answer = {"throws": {name: value for name, value in told.items() if value is not None}}
    print(json.dumps(answer), flush=True)
