/** Encoders of the filters of PDF (ISO 32000-2, 7.4), no better than tests need. */

export function asciiHex(data: Buffer): Buffer {
  return Buffer.from(`${data.toString('hex')}>`);
}

/** Without the group `z`, and with a last group that is whole. */
export function ascii85(data: Buffer): Buffer {
  const padded = Buffer.concat([data, Buffer.alloc((4 - (data.length % 4)) % 4, 0x20)]);
  let text = '';
  for (let at = 0; at < padded.length; at += 4) {
    let value = padded.readUInt32BE(at);
    const digits = [];
    for (let i = 0; i < 5; i += 1) {
      digits.unshift(String.fromCharCode(0x21 + (value % 85)));
      value = Math.floor(value / 85);
    }
    text += digits.join('');
  }
  return Buffer.from(`${text}~>`);
}

/** Literal runs only. */
export function runLength(data: Buffer): Buffer {
  const runs = [];
  for (let at = 0; at < data.length; at += 128) {
    const run = data.subarray(at, at + 128);
    runs.push(Buffer.of(run.length - 1), run);
  }
  return Buffer.concat([...runs, Buffer.of(128)]);
}

/** Codes of 9 bits only: the table is cleared before it needs more. */
export function lzw(data: Buffer): Buffer {
  const codes = [...data].flatMap((byte, i) => (i % 200 === 0 ? [256, byte] : [byte]));
  const bits = [...codes, 257].map((code) => code.toString(2).padStart(9, '0')).join('');
  return Buffer.from(bits.match(/.{1,8}/g)?.map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2)) ?? []);
}

/** Every row with another PNG filter, 16 columns. */
export function pngPredicted(data: Buffer): Buffer {
  const padded = Buffer.concat([data, Buffer.alloc((16 - (data.length % 16)) % 16, 0x20)]);
  const rows = [];
  for (let at = 0; at < padded.length; at += 16) {
    const filter = (at / 16) % 5;
    const row = Buffer.alloc(17, filter);
    for (let i = 0; i < 16; i += 1) {
      const [left, up] = [i > 0 ? (padded[at + i - 1] ?? 0) : 0, padded[at + i - 16] ?? 0];
      const corner = i > 0 ? (padded[at + i - 17] ?? 0) : 0;
      const near = [left, up, corner].map((byte) => Math.abs(left + up - corner - byte)) as [
        number,
        number,
        number,
      ];
      const paeth = near[0] <= near[1] && near[0] <= near[2] ? left : near[1] <= near[2] ? up : corner;
      row[i + 1] = (padded[at + i] ?? 0) - ([0, left, up, (left + up) >> 1, paeth][filter] ?? 0);
    }
    rows.push(row);
  }
  return Buffer.concat(rows);
}

/** The TIFF predictor, one row of bytes. */
export function tiffPredicted(data: Buffer): Buffer {
  return Buffer.from(data.map((byte, i) => byte - (i === 0 ? 0 : (data[i - 1] ?? 0))));
}
