/**
 * Runs acts one after another, in the order of the calls. Each caller gets the result of its own act; a failed act does not stop the
 * others.
 */
export type Serially = <Result>(act: () => Promise<Result>) => Promise<Result>;

export function oneAtATime(): Serially {
  let last: Promise<unknown> = Promise.resolve();
  return (act) => {
    const result = last.then(act);
    last = result.catch(() => {}); // its caller gets the rejection
    return result;
  };
}
