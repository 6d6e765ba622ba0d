/** Does one thing after the other, in the order of the calls. Each caller is told how its own ended; one that failed stops no other. */
export type InTurn = <Result>(act: () => Promise<Result>) => Promise<Result>;

export function takingTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (act) => {
    const result = last.then(act);
    last = result.catch(() => {}); // its caller is told
    return result;
  };
}
