"""Pages and workbooks that people read beside tables and figures."""
