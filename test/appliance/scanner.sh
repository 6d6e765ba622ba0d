# Run in the machine: scanner.sh — Debian's clamd, with the limits of the manual in /srv/clamd.conf and the database of one virus in /srv/daily.cud.
set -eu
sed -i -E '/^(StreamMaxLength|MaxFileSize|MaxScanSize|MaxScanTime|MaxQueue) /d' /etc/clamav/clamd.conf
cat /srv/clamd.conf >>/etc/clamav/clamd.conf
cp /srv/daily.cud /var/lib/clamav/
# Debian's unit waits for signatures from the network.
mkdir -p /etc/systemd/system/clamav-daemon.service.d
printf '[Unit]\nConditionPathExistsGlob=\n' >/etc/systemd/system/clamav-daemon.service.d/tests.conf
systemctl daemon-reload
# A tree that was not booted when the package came has it disabled, and a boot would end it.
systemctl enable --quiet clamav-daemon.service
systemctl restart clamav-daemon
