import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ["SEAL_WEBHOOK_SECRET"].removeprefix("whsec_"))
handled = set()  # in production: a table with the webhook-id as its key, written together with your own data


def is_genuine(headers, body):
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False
    digest = hmac.new(KEY, f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    return any(hmac.compare_digest(expected, given) for given in headers.get("webhook-signature", "").split(" "))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = is_genuine(self.headers, body)
        if genuine and self.headers["webhook-id"] not in handled:
            event = json.loads(body)
            print(event["type"], event["data"].get("id"), event["data"].get("customer_reference"), flush=True)
            handled.add(self.headers["webhook-id"])
        self.send_response(204 if genuine else 401)
        self.end_headers()


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8500))), Receiver).serve_forever()
