"""The paper's tables and figures beside our own: what to fit (`fits`), fitting (`run`), tables, figures, the page."""
