import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/vendor/"] },
  js.configs.recommended,
  {
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-len": ["error", { code: 130 }],
      "max-lines": ["error", 320],
      "no-else-return": "error",
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      quotes: ["error", "double", { avoidEscape: true }],
      semi: "error",
    },
  },
  {
    files: ["**/web/*.mjs"],
    languageOptions: { globals: { ...globals.browser, uPlot: "readonly" } },
    rules: {
      // What report/document.py can join: named imports and exports without renaming, from beside the module.
      "no-restricted-syntax": [
        "error",
        "ExportDefaultDeclaration",
        "ExportAllDeclaration",
        "ExportNamedDeclaration:not([declaration.kind='const'])",
        "ExportNamedDeclaration > VariableDeclaration > VariableDeclarator > :not(Identifier):first-child",
        "ImportDefaultSpecifier",
        "ImportNamespaceSpecifier",
        // What a content security policy forbids, and what would set text as markup.
        "AssignmentExpression[left.property.name=/^(innerHTML|outerHTML|cssText)$/]",
        "CallExpression[callee.property.name=/^(insertAdjacentHTML|write)$/]",
      ],
    },
  },
  { files: ["frontend/**"], languageOptions: { globals: globals.node } },
];
