/** The URL, or its path, as another path is put behind it. */
export function withoutFinalSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}
