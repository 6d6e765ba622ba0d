import { text as readText } from 'node:stream/consumers';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import {
  acceptCosignature,
  type PresentedOutcome,
  type PresentedRequest,
  requestCosignature,
} from '../../ops/witnessOperations.ts';
import { type Given, group, option } from '../command.ts';
import { operationCommand } from '../operationCommand.ts';
import { qrAsSvg, qrForTerminal } from '../qrCode.ts';
import { isJson, note, printJson, printResult } from '../terminal.ts';
import { forPeople } from '../times.ts';

const FORM_OPTIONS = [
  option('--qr', 'print the request as a QR code for the terminal', { conflicts: 'svg' }),
  option('--svg', 'print the request as a QR code in SVG'),
] as const;

type FormOptions = Given<typeof FORM_OPTIONS>;

const requestCommand = operationCommand('request', requestCosignature, {
  summary: 'print the newest checkpoint for a witness, to be transferred by file',
  description:
    'Prints the body of an add-checkpoint request (C2SP tlog-witness): the newest checkpoint, and the proof that its tree contains ' +
    'the tree that the witness cosigned last. Send it to the witness from any machine, as the examples show. The daemon keeps the ' +
    'checkpoint until its answer comes, also when the log has grown since.',
  options: FORM_OPTIONS,
  examples: [
    'pdfseal witness request --witness vault >request',
    'curl -si --data-binary @request http://127.0.0.1:8410/add-checkpoint >answer     # there',
    'pdfseal witness accept --witness vault <answer',
    'pdfseal witness request --witness vault --svg >request.svg',
  ],
  show: (asked, _, form) => printResult(asked, () => printRequest(asked, form)),
});

const acceptCommand = operationCommand('accept', acceptCosignature, {
  summary: 'take the answer of a witness',
  description:
    'Reads the answer of a witness on standard input, verifies it, and says what is next. The answer is signature lines; or a ' +
    'number, the size of the tree that the witness holds: then the command prints the next request; or the whole HTTP answer, as ' +
    'curl --include writes it. An answer that is wrong or old changes nothing. Nor does one with which the witness contradicts the ' +
    'log: nothing signs it, so the command says what to compare first.',
  options: FORM_OPTIONS,
  finds: ['answer'],
  find: readAnswer,
  exit: {
    0: 'the answer was accepted; if something was printed, it is the next request to transfer',
    1: 'the answer was not accepted, it has the size that was known already, or the witness holds another history of the log',
  },
  examples: [
    'pdfseal witness accept --witness vault <answer',
    'pdfseal witness accept <answer >next-request',
  ],
  show: (found, _, form) => showOutcome(found, form),
});

export const witnessCommand = group(
  'witness',
  'Lets a witness without a network cosign the log: you transfer the request to the witness by file, and its answer back. ' +
    'Needs the running daemon.',
  [requestCommand, acceptCommand],
);

async function readAnswer(): Promise<{ answer: string }> {
  if (ownProcess().stdin.isTTY) note('scan or paste the answer; Ctrl-D ends it');
  const answer = await readText(ownProcess().stdin);
  if (answer.trim() !== '') return { answer };
  throw new OperatorError('standard input is empty', {
    remedy: 'pass the answer of the witness on standard input: pdfseal witness accept <answer',
  });
}

function showOutcome(found: PresentedOutcome, form: FormOptions): void {
  if (found.outcome === 'contradiction')
    throw new OperatorError(
      `${found.witness} holds another history of the log: ${found.detail}. The fork alarm is on: nothing more is sealed`,
      { remedy: 'see "Witnesses" in the manual, "The fork alarm"' },
    );
  // As the answer to the newest request, this means that the witness holds another tree of that size.
  if (found.is_news === false) ownProcess().exitCode = 1;
  if (isJson()) {
    printJson(found);
    return;
  }
  const { witness: name, tree_size: size = 0, cosigned_at: at, witnessed, is_news: isNews, next } = found;
  const leaves = counted(size, 'leaf', 'leaves');
  if (next === undefined) {
    const quorum = witnessed
      ? 'the quorum has cosigned it'
      : 'the quorum of the policy has not cosigned it yet';
    note(`${name} has cosigned the checkpoint of ${leaves}${at ? `, ${forPeople(at)}` : ''}; ${quorum}`);
    return;
  }
  note(`${name} holds ${leaves}${isNews ? '' : ', as was known'}`);
  if (!isNews)
    note(
      `  → if this answers the newest request, unchanged, ${name} holds another tree of ${leaves}: to raise the fork alarm, accept the whole answer with --raise-fork-alarm`,
    );
  printRequest(next, form);
}

function printRequest(
  { witness, old_size: from, tree_size: to, request }: PresentedRequest,
  { qr, svg }: FormOptions,
): void {
  const { columns, rows } = ownProcess().stdout;
  const form = qr ? qrForTerminal(request, columns, rows) : svg ? qrAsSvg(request) : request;
  ownProcess().stdout.write(form);
  note(
    `for ${witness}, from ${from} to ${counted(to, 'leaf', 'leaves')}: transfer it there, and its answer to`,
  );
  note(`  pdfseal witness accept --witness ${witness} <answer`);
}
