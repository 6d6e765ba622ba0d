import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';

/**
 * Instructions of the SHA extensions have no form that knows wide registers. Processors of Intel take a hundred cycles for each where the
 * upper half of a vector register is dirty, that is: where any of registers 0 to 15 was written with 256 or 512 bits since the last
 * `vzeroupper`. So every way through the add-on that leads to such an instruction is followed, in the machine code the compiler made.
 */
const ADDON = fileURLToPath(new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url));
const EXTENSION = /^sha(1|256)/;
const WIDE = /%[yz]mm([0-9]|1[0-5])\b/;

interface Instruction {
  /** As objdump prints it, with the function it belongs to. */
  text: string;
  name: string;
  /** Of a jump or a call, within the add-on. */
  target: number | undefined;
  next: number | undefined;
}

interface Code {
  instructions: Map<number, Instruction>;
  /** Where functions begin. */
  entries: number[];
}

function parse(listing: string): Code {
  const instructions = new Map<number, Instruction>();
  const entries: number[] = [];
  let before: Instruction | undefined;
  let symbol = '';
  for (const line of listing.split('\n')) {
    const [, entry, named] = /^([0-9a-f]+) <(.*)>:$/.exec(line) ?? [];
    if (entry !== undefined && named !== undefined) {
      entries.push(Number.parseInt(entry, 16));
      symbol = named;
    }
    const [, at, text] = /^ *([0-9a-f]+):\t(.*)$/.exec(line) ?? [];
    if (at === undefined || text === undefined) continue;
    const address = Number.parseInt(at, 16);
    const [, name = ''] = /^(?:(?:notrack|bnd|lock|repz?|data16|cs) )*([a-z0-9]+)/.exec(text) ?? [];
    const [, target] = /^[a-z]+ +([0-9a-f]+) </.exec(text) ?? [];
    if (before !== undefined) before.next = address;
    before = {
      text: `${text} in ${symbol}`,
      name,
      target: target === undefined ? undefined : Number.parseInt(target, 16),
      next: undefined,
    };
    instructions.set(address, before);
  }
  return { instructions, entries };
}

interface Findings {
  /** Addresses of instructions of the extensions that can be reached. */
  reached: Set<number>;
  /** Where upper halves are dirty and must not be: before those, calls, and ends of functions. */
  faults: Set<string>;
}

/** Follows every way from every function's begin, where all is clean: what calls and what returns has to see to that. */
function follow({ instructions, entries }: Code): Findings {
  const findings: Findings = { reached: new Set(), faults: new Set() };
  const seen = { clean: new Set<number>(), dirty: new Set<number>() };
  const open = entries.map((address) => ({ address, dirty: false }));
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const instruction = instructions.get(at.address);
    const already = at.dirty ? seen.dirty : seen.clean;
    if (instruction === undefined || already.has(at.address)) continue;
    already.add(at.address);
    const { text, name, target, next } = instruction;
    if (EXTENSION.test(name)) findings.reached.add(at.address);
    const ends = name === 'ret' || (name === 'jmp' && target === undefined);
    if (at.dirty && (EXTENSION.test(name) || name === 'call' || ends)) findings.faults.add(text);
    const dirty = name !== 'vzeroupper' && name !== 'vzeroall' && (at.dirty || WIDE.test(text));
    if (name.startsWith('j') && target !== undefined) open.push({ address: target, dirty });
    if (name !== 'jmp' && name !== 'ret' && next !== undefined) open.push({ address: next, dirty });
  }
  return findings;
}

function disassemble(file: string): Code {
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28 } as const;
  return parse(execFileSync('objdump', ['-d', '--no-show-raw-insn', file], options));
}

t.test('no instruction of the SHA extensions runs with dirty upper halves', async (t) => {
  const code = disassemble(ADDON);
  const { reached, faults } = follow(code);
  const all = [...code.instructions].filter(([, { name }]) => EXTENSION.test(name));
  // Those of ARM are others, and know no halves.
  if (process.arch === 'x64') t.ok(all.length > 1000, `there are ${all.length}`);
  t.same(
    all.filter(([address]) => !reached.has(address)).map(([, { text }]) => text),
    [],
    'each is reached',
  );
  t.same([...faults], []);
});

t.test('the check finds dirty upper halves', async (t) => {
  const listing = (lines: string[]) =>
    `0000000000001000 <function>:\n${lines.map((line, i) => `    ${(0x1000 + i).toString(16)}:\t${line}`).join('\n')}`;
  const faults = (lines: string[]) => [...follow(parse(listing(lines))).faults];
  const dirty = 'vpaddq %zmm1,%zmm2,%zmm3';
  const extension = 'sha256rnds2 %xmm0,%xmm1,%xmm2';
  t.same(faults([dirty, extension, 'vzeroupper', 'ret']), [`${extension} in function`]);
  t.same(faults([dirty, 'vzeroupper', extension, 'ret']), []);
  t.same(faults(['vpaddq %ymm16,%ymm31,%ymm17', 'vpaddq %xmm0,%xmm1,%xmm2', extension, 'ret']), []);
  t.same(faults(['call   1000 <function>', dirty, 'call   1000 <function>', 'vzeroupper', 'ret']), [
    'call   1000 <function> in function',
  ]);
  t.same(faults([dirty, 'jne    1003 <function+0x3>', 'vzeroupper', extension, 'vzeroupper', 'ret']), [
    `${extension} in function`,
  ]);
  t.same(faults([dirty, 'ret']), ['ret in function']);
});
