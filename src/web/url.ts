/** The URL or path without final slashes, so that a path can be appended. */
export function withoutFinalSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}
