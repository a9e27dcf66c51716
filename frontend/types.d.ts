// Shapes of what the server sends, as in src/paceline/report/page.py and topologies/reporting.
declare const uPlot: any;

type Row = Record<string, any>;
type Section = Record<string, any> & { type: string; title: string; table: string; caption: string; note: string; group: string };

interface Column {
  name: string;
  title: string;
  kind: "text" | "count" | "number" | "seconds" | "ratio" | "lateness" | "bytes" | "joules" | "grams" | "money" | "bool";
  unit: string;
}

interface Table {
  name: string;
  columns: Column[];
  rows: any[][];
}

interface Data {
  column: Record<string, Column>;
  rows: Row[];
}

interface PageContent {
  kind: string;
  name: string;
  ended: string | null;
  about: string;
  sections: Section[];
  tables: Record<string, Table>;
  at: number;
  clock: "virtual" | "real";
  state: "running" | "ended" | "interrupted";
  notices: string[];
}

interface TableChange {
  columns?: Column[];
  drop: number;
  length: number;
  rows: [number, any[]][];
}

interface ContentChange extends Partial<Omit<PageContent, "tables">> {
  tables: Record<string, TableChange | null>;
}

interface RunEntry {
  name: string;
  kind: string;
  about: string;
  state: string;
  started_at: number | string | null;
  seconds: number | null;
  ended: string | null;
  share_done: number | null;
  metrics: Record<string, number | null> | null;
  loss: number | null;
  error: string | null;
}

/** What draws the content of a section: made once, then kept, so that what the reader chose outlasts changes. */
interface View {
  element: HTMLElement;
  update(section: Section, data: Data, page: { content: PageContent; now: () => number }): void;
}
