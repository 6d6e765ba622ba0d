# Run in the machine: environment.sh NAME PORT — everything an administrator does for a new environment on SoftHSM.
set -eu
name=$1 port=$2
home=/var/lib/softhsm-pdfseal/$name
mkdir -p -m 0755 /var/lib/softhsm-pdfseal
sed -e "s|^listen = \"127.*|listen = [\"127.0.0.1:$port\", \"unix:/run/pdfseal-api/$name/seal.sock\"]|" \
  -e "s/sandbox/$name/g" -e "s/127.0.0.1:8400/127.0.0.1:$port/g" \
  -e "s,^pin_file.*,pin_credential = \"pin_local\"," -e "s,/etc/pdfseal/softhsm2.conf,/etc/pdfseal/$name-softhsm.conf," \
  /usr/share/doc/pdfseald/examples/config/sandbox.toml >"/etc/pdfseal/$name.toml"
printf 'directories.tokendir = %s\nlog.level = ERROR\n' "$home" >"/etc/pdfseal/$name-softhsm.conf"
mkdir -m 0700 "/etc/pdfseal/$name.pins"
printf 1234 >"/etc/pdfseal/$name.pins/local"
systemctl start "pdfseald-environment@$name"
user=pdfseal-$name
install -d -o "$user" -g "$user" -m 0700 "$home"
runuser -u "$user" -- env SOFTHSM2_CONF="/etc/pdfseal/$name-softhsm.conf" \
  softhsm2-util --init-token --free --label "pdfseal-$name" --pin 1234 --so-pin 4321
dropin=/etc/systemd/system/pdfseald@$name.service.d
mkdir -p "$dropin"
# The tests start it more often than an administrator does.
printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\nReadWritePaths=%s\nWatchdogSec=5\n' "$home" >"$dropin/appliance.conf"
systemctl daemon-reload
pdfseal-run "$name" init --throwaway
