/** Reserved top-level domains (RFC 2606, RFC 6761), as examples use them. */
const NOBODYS_TOP = new Set(['example', 'test', 'invalid']);

/** Whether a host belongs to an example: `seal.example.com`, `log.test`. */
export function isPlaceholder(host: string): boolean {
  const labels = host.toLowerCase().split('.');
  return NOBODYS_TOP.has(labels.at(-1) ?? '') || labels.at(-2) === 'example';
}

/** The host of a log's origin, which is a URL without its scheme. */
export function hostOfOrigin(origin: string): string {
  const [host = ''] = origin.split('/');
  return host.replace(/:\d+$/, '');
}
