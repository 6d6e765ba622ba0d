type Definitions = readonly [term: string, meaning: string][];

/** Commands and options of the program, for its help and its manual page. */
export const WITNESS_COMMANDS: Definitions = [
  ['keygen --name NAME --key FILE', 'make a key, and print the verifier key that logs and verifiers need'],
  ['show-key KEY', 'print the verifier key again'],
  ['serve KEY --logs FILE --state FOLDER [--listen ADDRESS]', 'answer the logs'],
  [
    'answer KEY --logs FILE --state FOLDER',
    'answer one request that was carried here: it is read from standard input, and the answer is printed',
  ],
];

export const WITNESS_OPTIONS: Definitions = [
  ['--name NAME', 'name of the witness for ever, such as witness.example.com/audit'],
  ['--key FILE', 'a KEY: the name and the private key (PEM, Ed25519); only the owner may read the file'],
  ['--agent SOCKET --name NAME', 'another KEY: the only Ed25519 key of an ssh-agent(1), under this name'],
  [
    '--module FILE --token LABEL --key-label LABEL --pin-file FILE --name NAME',
    'another KEY: an Ed25519 key in an HSM, by its PKCS#11 module; only the owner may read the file with the PIN',
  ],
  ['--environment NAME=VALUE', 'a variable that the module needs; can be repeated'],
  [
    '--logs FILE',
    'the logs to cosign: lines "log <vkey>" of a C2SP tlog-policy, with Ed25519 or ECDSA keys, and "quorum none" at the end',
  ],
  ['--state FOLDER', 'what it has cosigned. Never put back an older copy'],
  ['--listen ADDRESS', '127.0.0.1:8410 (default) or unix:/path; a socket of systemd replaces it'],
  ['--version', 'print version and commit, and exit'],
  ['--help', 'print this, and exit'],
];

export const WITNESS_EXIT_MEANINGS: readonly [status: number, meaning: string][] = [
  [0, 'after a stop by SIGTERM or SIGINT; answer: for a signature, or the size that it holds'],
  [1, 'for a problem that an administrator can solve; answer: for any other refusal'],
  [70, 'for a bug'],
];

export const WITNESS_USAGE = `pdfseal-witness: cosigns the checkpoints of logs, so that no log can show two histories (C2SP tlog-witness)

${WITNESS_COMMANDS.map(([command, meaning]) => `  pdfseal-witness ${command}\n      ${meaning}`).join('\n')}

${WITNESS_OPTIONS.map(([flags, meaning]) => `  ${flags.padEnd(27)} ${meaning}`).join('\n')}

Exit status: ${WITNESS_EXIT_MEANINGS.map(([status, meaning]) => `${status} ${meaning}`).join('; ')}.
`;
