import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL, API_KEY = os.environ["PDFSEAL_URL"], os.environ["PDFSEAL_API_KEY"]


def api(path, body=None, headers={}):
    """Answers the JSON body; sends again what may succeed later."""
    for attempt in range(11):
        wait = min(2**attempt, 60)
        request = urllib.request.Request(URL + path, body, {**headers, "Authorization": f"Bearer {API_KEY}"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 502, 503, 504) or attempt == 10:
                sys.exit(json.load(error)["error"]["message"])
            wait = int(error.headers.get("Retry-After", wait))
        except OSError:  # the network
            if attempt == 10:
                raise
        time.sleep(wait)


document = sys.argv[1]
with open(document, "rb") as file:
    content = file.read()
fields = urllib.parse.urlencode({"visibility": "private", "customer_reference": os.path.basename(document)})
job = api(
    f"/v1/jobs/seal?{fields}",
    content,
    {"Content-Type": "application/pdf", "Idempotency-Key": hashlib.sha256(content).hexdigest()},
)
while job["phase"] != "completed":
    if job["phase"] == "failed":
        sys.exit(job["error"]["message"])
    time.sleep(1)
    job = api(f"/v1/jobs/{job['id']}")
receipt_file = f"{document}.receipt.json"
with open(receipt_file, "w", encoding="utf-8") as file:
    json.dump(api(f"/v1/jobs/{job['id']}/receipt.json"), file)
sys.exit(subprocess.call(["pdfseal", "verify", document, receipt_file, "--trust", "trust.json"]))
