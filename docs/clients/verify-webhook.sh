# Ends with 0 if the signature in $webhook_signature is good and not older than five minutes.
verify_webhook() {
  key=$(printf %s "${SEAL_WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -tx1 | tr -d ' \n')
  expected=$({ printf '%s.%s.' "$webhook_id" "$webhook_timestamp"; cat body; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
  age=$(($(date +%s) - webhook_timestamp))
  [ "$age" -le 300 ] && [ "$age" -ge -300 ] && case " $webhook_signature " in *" v1,$expected "*) ;; *) false ;; esac
}
