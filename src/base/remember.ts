/**
 * Caches the results of a pure function for its newest keys: at least `max`, and at most twice as many. The key must contain everything
 * that the result depends on. All callers share a result, so it must not be changed; an undefined result is not cached.
 */
export function remember<Value>(max: number, make: (key: string) => Value): (key: string) => Value {
  let newest = new Map<string, Value>();
  let older = new Map<string, Value>();
  return (key) => {
    const found = newest.get(key);
    if (found !== undefined) return found;
    const value = older.get(key) ?? make(key);
    if (newest.size >= max) {
      older = newest;
      newest = new Map();
    }
    newest.set(key, value);
    return value;
  };
}

/** Caches the result of a pure function of an immutable object, while the object is in use. */
export function rememberEach<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, { value: Value }>();
  return (key) => {
    const found = made.get(key) ?? { value: make(key) };
    made.set(key, found);
    return found.value;
  };
}
