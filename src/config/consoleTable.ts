/** The table `[console]` of the configuration: where people reach the console, what it gives them, and whose certificates open it. */
import { PERSON_NAME_RULE, ROLES, readPersonName } from '../base/people.ts';
import {
  adminAddress,
  choice,
  flag,
  list,
  networkAddress,
  omissible,
  pemFile,
  table,
  text,
  tlsKey,
  value,
} from './keys.ts';

const person = table({
  certificateName: text(
    'a name in the certificate: the subject as RFC 4514 writes it, such as "CN=Anna Example,O=Example", or "DNS:…" or "URI:…" of the alternative names',
    /^[^\p{Cc}]{1,1024}$/u,
  ),
  name: value(`the name on record: ${PERSON_NAME_RULE}`, (found) =>
    typeof found === 'string' ? readPersonName(found) : undefined,
  ),
  role: choice(`one of ${ROLES.join(', ')}`, ROLES),
});

export const consoleTable = table({
  listen: omissible(adminAddress, 'console.sock in the folder of the administration socket'),
  sealedPdfs: flag('whether administrators may download sealed PDFs from the console').prefault(false),
  tls: omissible(
    table({
      listen: networkAddress,
      certificateFile: pemFile('the certificate of the console and its chain'),
      ...tlsKey,
      clientCaFile: pemFile('the authorities that certify people'),
      clientCrlFile: omissible(pemFile('the revocation lists of those authorities')),
      people: list(person, 'one [[console.tls.people]] table for each certificate').prefault([]),
    }),
  ),
});
