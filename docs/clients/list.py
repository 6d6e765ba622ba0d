import json
import os
import ssl
import urllib.request

tls = ssl.create_default_context(cafile="ca.pem")
tls.load_cert_chain("client.pem", "client.key")
with urllib.request.urlopen(os.environ["PDFSEAL_URL"] + "/v1/jobs?limit=1", context=tls, timeout=60) as response:
    print(json.load(response)["jobs"])
