/** The module of that name beside the one at `url`, with its extension: .ts as it is, .js once compiled. */
export function siblingModule(name: string, url: string): URL {
  return new URL(`./${name}${url.slice(url.lastIndexOf('.'))}`, url);
}
