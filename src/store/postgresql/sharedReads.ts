/**
 * Reads by key, for many requests at one moment. Keys requested while a statement is under way share the next one: so each request sees
 * everything that was durable when it was made, and a busy service queries the database a few times, not for each request.
 */
export class SharedReads<Value> {
  readonly #read: (keys: string[]) => Promise<Map<string, Value>>;
  #next: { keys: Set<string>; values: Promise<Map<string, Value>> } | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(read: (keys: string[]) => Promise<Map<string, Value>>) {
    this.#read = read;
  }

  async get(key: string): Promise<Value | undefined> {
    this.#next ??= this.#afterLast();
    const { keys, values } = this.#next;
    keys.add(key);
    return (await values).get(key);
  }

  #afterLast() {
    const keys = new Set<string>();
    const values = this.#last.then(() => {
      this.#next = undefined;
      return this.#read([...keys]);
    });
    this.#last = values.catch(() => {}); // The callers get the error.
    return { keys, values };
  }
}
