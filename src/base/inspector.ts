/**
 * On SIGUSR1, Node opens its inspector on a loopback port, through which any user of the machine could read this process's memory and run
 * code in it. The package starts every program with `--disable-sigusr1`; this module protects programs started without it. Import it first,
 * for its side effect.
 */
process.on('SIGUSR1', () => {});
