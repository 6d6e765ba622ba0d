#!/bin/sh
set -eu
document=$1
receipt=$document.receipt.json
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# Puts the body of the answer into the file $answer. curl waits and sends again as Retry-After says, and keeps the API key off the command line.
api() {
  printf 'Authorization: Bearer %s\n' "$PDFSEAL_API_KEY" |
    curl --silent --show-error --fail-with-body --retry 10 --retry-connrefused --max-time 600 -H @- -o "$answer" "$@" ||
    { jq -r '.error.message' "$answer" >&2; exit 1; }
}

api -H "Idempotency-Key: $(sha256sum <"$document" | cut -c -64)" -F visibility=private \
  --form-string customer_reference="$(basename "$document")" -F "file=@\"$document\";type=application/pdf" \
  "$PDFSEAL_URL/v1/jobs/seal"
job=$(jq -r .id "$answer")
until [ "$(jq -r .phase "$answer")" = completed ]; do
  if [ "$(jq -r .phase "$answer")" = failed ]; then jq -r .error.message "$answer" >&2; exit 1; fi
  sleep 1
  api "$PDFSEAL_URL/v1/jobs/$job"
done
api "$PDFSEAL_URL/v1/jobs/$job/receipt.json"
cp "$answer" "$receipt"
pdfseal verify "$document" "$receipt" --trust trust.json
