# Run in the machine: hardened.sh — everything for a production environment that the manual leaves to the site: three tokens of SoftHSM in the
# place of HSMs, one of them behind a module that counts log-ins; and the answers in the configuration. The rest are commands of the manual.
set -eu
umask 022
name=production
config=/etc/pdfseal/$name.toml
cp "/usr/share/doc/pdfseald/examples/config/$name.toml" "$config"
systemctl start "pdfseald-environment@$name"
user=pdfseal-$name
for region in eu-west eu-north timestamp; do
  home=/var/lib/softhsm-pdfseal/$name-$region
  install -d -o "$user" -g "$user" -m 0700 "$home"
  printf 'directories.tokendir = %s\nlog.level = ERROR\n' "$home" >"/etc/pdfseal/softhsm2-$region.conf"
  runuser -u "$user" -- env SOFTHSM2_CONF="/etc/pdfseal/softhsm2-$region.conf" \
    softhsm2-util --init-token --free --label "pdfseal-$region" --pin "1234-$region" --so-pin 4321
  printf %s "1234-$region" >"/etc/pdfseal/$name.pins/$region"
done
# The module that counts writes into the folder of the tokens, as whichever user logs in.
install -o "$user" -g "$user" -m 0666 /dev/null "/var/lib/softhsm-pdfseal/$name-eu-north/calls"
sed -i -e 's/^quorum = 1$/quorum = 2/' \
  -e 's|seal\.example\.com|seal.acme.org|g' \
  -e 's/^# document_bytes_max = .*/document_bytes_max = "100MiB"/' \
  -e "/softhsm2-eu-north.conf/s|}| , FAULTY_DIR = \"/var/lib/softhsm-pdfseal/$name-eu-north\" }|" \
  -e '/^region = "eu-north"/,/^token_label/s|^module = .*|module = "/usr/local/lib/counting-pkcs11.so"|' "$config"
