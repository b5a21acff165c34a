/** The program as it is installed. tests/suite-setup.ts builds it before the first test. */
export const main = "dist/cli/main.js";
