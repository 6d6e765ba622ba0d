/** Texts for people who sign in with a certificate. */

export const englishCertificates = {
  lead: (environment: string) => `Your certificate opens the console of ${environment}.`,
  needed: 'The console requires your certificate',
  neededLead:
    'Your browser did not present one. This address is for people with a certificate from your site.',
  neededHow:
    'Import your certificate into the browser, close the browser, and open this address again. Choose the certificate when the browser asks.',
  refused: 'Your certificate does not open the console',
  faulty: (fault: string) => `The certificate ${fault}.`,
  unknown: 'It is valid, but the configuration does not list it. Its names are:',
  noNames: 'It has no usable name.',
  refusedHow:
    'Show this page to an administrator of the machine: [[console.tls.people]] in the configuration lists the certificates that open the console.',
  faultyHow: 'Get a valid certificate from your site, and open this address again with it.',
  tooMany: 'Too many sign-ins',
  tooManyLead: 'At most ten sign-ins in ten minutes are allowed.',
  tooManyHow: 'Continue in an open session, or wait ten minutes.',
  againHow: 'To sign in again, open the first page of the console.',
  wrongHostHow:
    'Open the console under a name of its own certificate. A name that only a wildcard covers is not accepted, because other machines can have such a name too.',
};
