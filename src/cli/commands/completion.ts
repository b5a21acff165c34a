import { Argument, Command } from "@commander-js/extra-typings";
import type { CommandEntry } from "../command.js";
import { type Io, write } from "../io.js";

export const note = "Load it in every shell: put the output into the file that the examples name.";
export const examples = [
  "temper completion bash >> ~/.bashrc",
  "temper completion zsh >> ~/.zshrc",
  "temper completion fish > ~/.config/fish/completions/temper.fish",
];

/** The words that can follow a command. */
interface Completion {
  readonly name: string;
  readonly summary: string;
  readonly subcommands: readonly string[];
  readonly flags: readonly { readonly flag: string; readonly description: string }[];
}

const shells: Readonly<Record<string, (all: readonly Completion[]) => string>> = {
  bash: formatBash,
  zsh: (all) => `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${formatBash(all)}`,
  fish: formatFish,
};

/** The commands by name. */
type Commands = Readonly<Record<string, CommandEntry>>;

export function define(command: Command, io: Io, commands: Commands): void {
  command
    .addArgument(new Argument("<shell>", "bash, zsh or fish").choices(Object.keys(shells)))
    .action(async (shell) => write(io.stdout, shells[shell]!(await listCompletions(io, commands))));
}

/** Reads the flags from the definitions of the commands, so the script is never out of date. */
async function listCompletions(io: Io, commands: Commands): Promise<Completion[]> {
  const visible = Object.entries(commands).filter(([, { hidden }]) => !hidden);
  return Promise.all(
    visible.map(async ([name, { summary, load }]) => {
      const command = new Command(name);
      (await load()).define(command, io, commands);
      const defined = [command, ...command.commands].flatMap(({ options }) => options);
      const flags = new Map(defined.flatMap(({ long, description }) => (long ? [[long, description] as const] : [])));
      return {
        name,
        summary,
        subcommands: command.commands.map((each) => each.name()),
        flags: [...flags].map(([flag, description]) => ({ flag, description })),
      };
    }),
  );
}

function formatBash(all: readonly Completion[]): string {
  const cases = all.map(
    ({ name, subcommands, flags }) =>
      `    ${name}) words="${subcommands.join(" ")}"; flags="${flags.map(({ flag }) => flag).join(" ")} --help" ;;`,
  );
  // Without a match, the shell completes file names.
  return `_temper() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words="" flags=""
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${all.map(({ name }) => name).join(" ")}"; flags="--help --version"; fi
  if [ "$COMP_CWORD" -gt 2 ]; then words=""; fi
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -F _temper temper
`;
}

function formatFish(all: readonly Completion[]): string {
  const quote = (text: string): string => `'${text.replace(/[\\']/g, "\\$&")}'`;
  const lines = all.flatMap(({ name, summary, subcommands, flags }) => [
    `complete -c temper -n __fish_use_subcommand -f -a ${name} -d ${quote(summary)}`,
    ...subcommands.map((word) => `complete -c temper -n '__fish_seen_subcommand_from ${name}' -f -a ${word}`),
    ...flags.map(
      ({ flag, description }) =>
        `complete -c temper -n '__fish_seen_subcommand_from ${name}' -l ${flag.slice(2)} -d ${quote(description)}`,
    ),
  ]);
  return `${lines.join("\n")}\n`;
}
