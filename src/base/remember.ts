/**
 * Remembers what a pure function made of its newest keys: of `max` at least, and of twice as many at most. The key
 * must hold everything that the result depends on. All callers share a result, so nobody may change it; an undefined
 * one is not remembered.
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

/** Remembers what a pure function made of an object that nobody changes, for as long as the object is in use. */
export function rememberEach<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, { value: Value }>();
  return (key) => {
    const found = made.get(key) ?? { value: make(key) };
    made.set(key, found);
    return found.value;
  };
}
