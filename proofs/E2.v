(* E2.v: the lower bound of the certificate checker is sound (claim E2).

   offline_opt/certificate/checker.py accepts any prices >= 0 and computes LB from them. Below, `bound` is that
   computation in integers, and `weak_duality` says that no schedule that Model.run accepts costs less.

   What mirrors what:
     whole, slots, serves, units    checker.py _bound
     gain                           _bound: reward, gain (only entries of positive weight)
     events                         _chances: where an item may enter, boundary by boundary
     legs                           _bound: stay, come (prices summed from entry to entry, latest chance)
     matrix, mul, pairs, heaviest   _heaviest: the (max, +) matrices and their product in pairs
     check_grid, rounded            _check_grid and the last line of _bound
   Covered: both orders, stream and pool, free and charged fill, sizes, weights, best and mean_topk, with and
   without a score. Differences: `None` where Python has the number `never`; lists over all steps instead of
   arrays over the nonzero ones; integers without bounds; 1/(full mult) is the unit of all prices (Python's
   1/scale, with mult = scale // full), and lambda = p/q.
   Not covered: the aggregator coverage with its credits, and the reading of files.                          *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* ---- prices and what an item can earn ------------------------------------------------------------------ *)

Record tag := Tag { slot : Z; serve : Z }.

Definition gain (mult : Z) (x : query) (p : tag) (i : nat) : option Z :=
  if 0 <? weight x
  then match find (fun e => Nat.eqb (item e) i) (row x) with
       | Some e => Some (Z.max 0 (weight x * (quality e * mult) - serve p))
       | None => None
       end
  else None.

(* What one step means for one item: may it enter just before the step is served (boundary t), what does it
   pay to be held, and, if the step has an entry of it, what does it gain.                                   *)
Record event := Event { may : bool; hold : Z; earns : option Z }.

(* ready: the step before let the item in. In serve_then_update that is what counts, else the step itself. *)
Fixpoint events (s : setting) (mult : Z) (i : nat) (ready : bool) (tr : list query) (ps : list tag)
  : list event :=
  match tr, ps with
  | x :: tr', p :: ps' =>
      Event (if serves_first s then ready else may_enter s x i) (size s i * slot p) (gain mult x p i)
      :: events s mult i (may_enter s x i) tr' ps'
  | _, _ => []
  end.

(* ---- (max, +) with None for what is impossible --------------------------------------------------------- *)

Definition omax (a b : option Z) : option Z :=
  match a, b with
  | Some x, Some y => Some (Z.max x y)
  | Some x, None => Some x
  | None, _ => b
  end.
Definition oadd (a b : option Z) : option Z :=
  match a, b with Some x, Some y => Some (x + y) | _, _ => None end.
Definition plus (a : option Z) (x : Z) : option Z := oadd a (Some x).

(* ---- the best path of one item, step by step ----------------------------------------------------------- *)

(* State: the best value with the item out after its last entry, and with the item in now. *)
Definition advance (fee : Z) (state : Z * option Z) (e : event) : Z * option Z :=
  let (out, now) := state in
  let now := plus (omax now (if may e then Some (out - fee) else None)) (- hold e) in
  match earns e with
  | None => (out, now)
  | Some g => (match plus now g with Some v => Z.max out v | None => out end, plus now g)
  end.

Definition best_path (fee : Z) (l : list event) : Z := fst (fold_left (advance fee) l (0, None)).

(* ---- the same as the checker computes it: from entry to entry, matrices, products in pairs -------------- *)

(* since: what being held has cost since the last entry; chance: since the latest boundary for entering. For
   each entry: what staying brings, and what coming brings.                                                  *)
Fixpoint legs (fee since : Z) (chance : option Z) (l : list event) : list (Z * option Z) :=
  match l with
  | [] => []
  | e :: rest =>
      let since := since + hold e in
      let chance := if may e then Some (hold e) else plus chance (hold e) in
      match earns e with
      | None => legs fee since chance rest
      | Some g =>
          (g - since, match chance with Some c => Some (g - (fee + c)) | None => None end)
          :: legs fee 0 None rest
      end
  end.

(* Named by the state before and after: out or in. *)
Record matrix := Matrix { oo : option Z; oi : option Z; io : option Z; ii : option Z }.
Definition of_leg (leg : Z * option Z) : matrix :=
  let (stay, come) := leg in Matrix (omax come (Some 0)) come (Some stay) (Some stay).
Definition mul (a b : matrix) : matrix :=
  Matrix (omax (oadd (oo a) (oo b)) (oadd (oi a) (io b)))
         (omax (oadd (oo a) (oi b)) (oadd (oi a) (ii b)))
         (omax (oadd (io a) (oo b)) (oadd (ii a) (io b)))
         (omax (oadd (io a) (oi b)) (oadd (ii a) (ii b))).
Fixpoint pairs (l : list matrix) : list matrix :=
  match l with a :: b :: rest => mul a b :: pairs rest | _ => l end.
Fixpoint tree (rounds : nat) (l : list matrix) : option matrix :=
  match l with
  | [] => None
  | [a] => Some a
  | _ => match rounds with O => None | S r => tree r (pairs l) end
  end.
Definition heaviest (fee : Z) (l : list event) : Z :=
  let entries := map of_leg (legs fee 0 None l) in
  match tree (length entries) entries with
  | Some m => match oo m with Some v => v | None => 0 end
  | None => 0
  end.

(* ---- the bound ------------------------------------------------------------------------------------------ *)

Definition value (s : setting) (mult entry : Z) (tr : list query) (ps : list tag) (i : nat) : Z :=
  if capacity s <? size s i then 0
  else heaviest (size s i * entry) (events s mult i false tr ps).

Definition bound (s : setting) (mult entry : Z) (ps : list tag) (tr : list query) : Z :=
  let whole := Zsum (map weight tr) * (full s * mult) in
  let serves := Zsum (map serve ps) in
  let slots := Zsum (map slot ps) in
  let units := whole - Z.of_nat (top_k s) * serves - capacity s * slots
               - Zsum (map (value s mult entry tr ps) (seq 0 (n_items s))) in
  if free_fill s then units - capacity s * entry else units.

(* ---- the checker's path is the best path ---------------------------------------------------------------- *)

Lemma omax_none : forall a, omax a None = a.
Proof. destruct a; reflexivity. Qed.
Lemma omax_assoc : forall a b c, omax a (omax b c) = omax (omax a b) c.
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.max_assoc. Qed.
Lemma omax_comm : forall a b, omax a b = omax b a.
Proof. intros [x|] [y|]; cbn; try reflexivity. now rewrite Z.max_comm. Qed.
Lemma omax_swap : forall a b c d, omax (omax a b) (omax c d) = omax (omax a c) (omax b d).
Proof.
  intros. rewrite <- (omax_assoc a b), (omax_assoc b c), (omax_comm b c), <- (omax_assoc c b).
  apply omax_assoc.
Qed.
Lemma oadd_assoc : forall a b c, oadd a (oadd b c) = oadd (oadd a b) c.
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_assoc. Qed.
Lemma oadd_omax_l : forall a b c, oadd a (omax b c) = omax (oadd a b) (oadd a c).
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_max_distr_l. Qed.
Lemma oadd_omax_r : forall a b c, oadd (omax a b) c = omax (oadd a c) (oadd b c).
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_max_distr_r. Qed.

Lemma mul_assoc : forall a b c, mul a (mul b c) = mul (mul a b) c.
Proof.
  intros [a1 a2 a3 a4] [b1 b2 b3 b4] [c1 c2 c3 c4]. unfold mul. cbn [oo oi io ii].
  f_equal; rewrite !oadd_omax_l, !oadd_omax_r, !oadd_assoc; apply omax_swap.
Qed.

Definition product (a : matrix) (l : list matrix) : matrix := fold_left mul l a.

Lemma product_mul : forall l a b, product (mul a b) l = mul a (product b l).
Proof.
  induction l as [|c l IH]; intros a b; [reflexivity|]. cbn. unfold product in *.
  rewrite <- mul_assoc. apply IH.
Qed.

Lemma pairs_spec : forall n l a, (length l <= n)%nat ->
  exists b r, pairs (a :: l) = b :: r /\ product b r = product a l /\ (length r <= length l)%nat /\
    (l <> [] -> (length r < length l)%nat).
Proof.
  induction n as [|n IH]; intros l a H.
  - destruct l; [|cbn in H; lia]. exists a, []. repeat split; try reflexivity; try easy.
  - destruct l as [|b l]; [exists a, []; repeat split; try reflexivity; easy|].
    destruct l as [|c l].
    + exists (mul a b), []. repeat split; cbn; try lia. 
    + destruct (IH l c) as (d & r & E & P & L & _); [cbn in H; lia|].
      exists (mul a b), (d :: r). split; [cbn [pairs] in *; now rewrite <- E|].
      split; [|split; [|intros _]; cbn; lia].
      change (product (mul a b) (d :: r)) with (product (mul (mul a b) d) r).
      change (product a (b :: c :: l)) with (product (mul (mul a b) c) l).
      now rewrite !product_mul, P.
Qed.

Lemma tree_spec : forall n a l, (length l <= n)%nat -> tree n (a :: l) = Some (product a l).
Proof.
  induction n as [|n IH]; intros a l H.
  - destruct l; [reflexivity | cbn in H; lia].
  - destruct l as [|b l]; [reflexivity|].
    destruct (pairs_spec _ (b :: l) a (le_n _)) as (d & r & E & P & _ & L).
    change (tree (S n) (a :: b :: l)) with (tree n (pairs (a :: b :: l))). rewrite E, <- P. apply IH.
    specialize (L ltac:(easy)). cbn in L, H. lia.
Qed.

(* A row vector times a matrix. *)
Definition apply (v : option Z * option Z) (m : matrix) : option Z * option Z :=
  let (o, i) := v in (omax (oadd o (oo m)) (oadd i (io m)), omax (oadd o (oi m)) (oadd i (ii m))).

Lemma apply_mul : forall v a b, apply (apply v a) b = apply v (mul a b).
Proof.
  intros [o i] [a1 a2 a3 a4] [b1 b2 b3 b4]. unfold apply, mul. cbn [oo oi io ii].
  f_equal; rewrite !oadd_omax_l, !oadd_omax_r, !oadd_assoc; apply omax_swap.
Qed.

Lemma apply_product : forall l a v, fold_left apply l (apply v a) = apply v (product a l).
Proof.
  induction l as [|b l IH]; intros a v; [reflexivity|]. cbn. rewrite apply_mul, IH. reflexivity.
Qed.

Lemma plus_zero : forall a, plus a (- 0) = a.
Proof. intros [x|]; cbn; [f_equal; lia | reflexivity]. Qed.

(* From entry to entry = step by step. *)
Lemma legs_spec : forall fee l since chance out inn,
  Forall (fun e => 0 <= hold e) l -> (forall c, chance = Some c -> 0 <= c) ->
  fst (fold_left apply (map of_leg (legs fee since chance l)) (Some out, inn)) =
  Some (fst (fold_left (advance fee) l
    (out, omax (plus inn (- since)) (match chance with Some c => Some (out - fee - c) | None => None end)))).
Proof.
  intros fee l. induction l as [|e l IH]; intros since chance out inn F C; [reflexivity|].
  inversion F as [|? ? H F']; subst. cbn [legs fold_left advance].
  set (chance' := if may e then Some (hold e) else plus chance (hold e)).
  assert (C' : forall c, chance' = Some c -> 0 <= c).
  { unfold chance'. intros c. destruct (may e).
    - intros E. now injection E as <-.
    - destruct chance as [d|]; cbn; [|easy]. intros E. injection E as <-. specialize (C d eq_refl). lia. }
  assert (Now : plus (omax (omax (plus inn (- since))
                   (match chance with Some c => Some (out - fee - c) | None => None end))
                 (if may e then Some (out - fee) else None)) (- hold e)
          = omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)).
  { unfold chance', plus. destruct (may e), chance as [c|], inn as [v|]; cbn; try reflexivity; f_equal;
      try (specialize (C c eq_refl)); lia. }
  rewrite Now. destruct (earns e) as [g|].
  - cbn [map fold_left].
    assert (N : apply (Some out, inn) (of_leg (g - (since + hold e),
                  match chance' with Some c => Some (g - (fee + c)) | None => None end))
      = (Some (match plus (omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)) g
               with Some v => Z.max out v | None => out end),
         plus (omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)) g)).
    { unfold plus. destruct chance' as [c|], inn as [v|]; cbn [apply of_leg oo oi io ii omax oadd];
        f_equal; try (f_equal; lia). }
    rewrite N, IH; [|assumption|easy]. now rewrite omax_none, plus_zero.
  - apply IH; assumption.
Qed.

Theorem heaviest_is_best_path : forall fee l, Forall (fun e => 0 <= hold e) l ->
  heaviest fee l = best_path fee l.
Proof.
  intros fee l F. pose proof (legs_spec fee l 0 None 0 None F ltac:(easy)) as H. cbn [plus oadd omax] in H.
  unfold heaviest, best_path. destruct (map of_leg (legs fee 0 None l)) as [|a r].
  - cbn in H. injection H as H. cbn. exact H.
  - cbn [fold_left] in H. rewrite apply_product in H. rewrite tree_spec by (cbn; lia).
    unfold apply in H. cbn [fst oadd] in H. rewrite omax_none in H.
    destruct (oo (product a r)) as [v|]; [|easy]. cbn in H. injection H as H. exact H.
Qed.

(* ---- what an item earns in a schedule, and that the best path earns no less ------------------------------ *)

Definition count (i : nat) (l : list nat) : Z := Zsum (map (fun x => if Nat.eqb i x then 1 else 0) l).

Definition worth (mult : Z) (x : query) (p : tag) (i : nat) : Z :=
  match gain mult x p i with Some g => g | None => 0 end.

Definition at_step (s : setting) (mult : Z) (x : query) (p : tag) (cache : list nat) (i : nat) : Z :=
  if mem i cache then worth mult x p i - size s i * slot p else 0.

Fixpoint earned (s : setting) (mult entry : Z) (i : nat) (cache : list nat)
  (tr : list query) (ps : list tag) (sch : list change) : Z :=
  match tr, ps, sch with
  | x :: tr', p :: ps', c :: sch' =>
      match update s x c cache with
      | None => 0
      | Some held =>
          at_step s mult x p (if serves_first s then cache else held) i
          - size s i * entry * count i (enters c) + earned s mult entry i held tr' ps' sch'
      end
  | _, _, _ => 0
  end.

Definition proper (ps : list tag) : Prop := Forall (fun p => 0 <= slot p /\ 0 <= serve p) ps.

Lemma worth_nonneg : forall mult x p i, 0 <= worth mult x p i.
Proof.
  intros. unfold worth, gain. destruct (0 <? weight x); [|lia].
  destruct (find _ (row x)); lia.
Qed.

Lemma count_nonneg : forall i l, 0 <= count i l.
Proof.
  intros. apply Zsum_nonneg, Forall_forall. intros z I. apply in_map_iff in I. destruct I as (x & <- & _).
  destruct (Nat.eqb i x); lia.
Qed.

Lemma count_in : forall i l, In i l -> 1 <= count i l.
Proof.
  induction l as [|x l IH]; intros I; [easy|]. unfold count in *. cbn [map Zsum].
  pose proof (count_nonneg i l) as P. unfold count in P.
  destruct I as [->|I]; [rewrite Nat.eqb_refl; lia|]. specialize (IH I). destruct (Nat.eqb i x); lia.
Qed.

Lemma enter_new : forall s x xs cache held i, enter s x xs cache = Some held -> In i held ->
  In i cache \/ (In i xs /\ may_enter s x i = true).
Proof.
  induction xs as [|y xs IH]; intros cache held i E I.
  - cbn in E. injection E as <-. now left.
  - apply enter_cons in E. destruct E as (_ & _ & M & _ & E). destruct (IH _ _ _ E I) as [J|[J K]].
    + apply in_app_iff in J. cbn in J. destruct J as [J|[<-|[]]]; [now left | right; split; [now left | assumption]].
    + right. split; [now right | assumption].
Qed.

Lemma leave_old : forall xs cache held i, leave xs cache = Some held -> In i held -> In i cache.
Proof.
  induction xs as [|x xs IH]; cbn; intros cache held i E I.
  - now injection E as <-.
  - destruct (mem x cache); [|easy]. apply drop_incl with x. now apply (IH _ _ _ E).
Qed.

Lemma update_new : forall s x c cache held i, update s x c cache = Some held -> mem i held = true ->
  mem i cache = true \/ (1 <= count i (enters c) /\ may_enter s x i = true).
Proof.
  intros s x c cache held i E I. unfold update in E. destruct (leave (leaves c) cache) as [rest|] eqn:L; [|easy].
  apply mem_In in I. destruct (enter_new _ _ _ _ _ _ E I) as [J|[J K]].
  - left. apply mem_In. now apply (leave_old _ _ _ _ L).
  - right. split; [now apply count_in | assumption].
Qed.

(* v is at most a value that may be impossible. *)
Definition below (v : Z) (o : option Z) : Prop := match o with Some w => v <= w | None => False end.
Definition tidy (out : Z) (now : option Z) : Prop := match now with Some n => n <= out | None => True end.

Lemma below_omax : forall v a b, below v (omax a b) <-> below v a \/ below v b.
Proof. intros v [x|] [y|]; cbn; lia. Qed.

(* One step of the automaton against one step of any schedule: v is what the schedule has earned so far. *)
Lemma advance_step : forall fee e out now (b : bool) v, 0 <= fee -> 0 <= hold e ->
  (forall g, earns e = Some g -> 0 <= g) -> tidy out now -> v <= out ->
  (b = true -> below v (omax now (if may e then Some (out - fee) else None))) ->
  let w := v + if b then (match earns e with Some g => g | None => 0 end) - hold e else 0 in
  let (out', now') := advance fee (out, now) e in
  tidy out' now' /\ w <= out' /\ (b = true -> below w now').
Proof.
  intros fee e out now b v Hf Hh Hg T V B. cbn [advance].
  set (here := omax now (if may e then Some (out - fee) else None)) in *.
  assert (T' : tidy out here).
  { unfold here. destruct now as [n|], (may e); cbn in *; lia. }
  clearbody here. destruct (earns e) as [g|].
  - specialize (Hg g eq_refl). destruct here as [n|]; cbn in *; destruct b; try specialize (B eq_refl); cbn in *;
      repeat split; try easy; lia.
  - destruct here as [n|]; cbn in *; destruct b; try specialize (B eq_refl); cbn in *; repeat split; try easy; lia.
Qed.

Lemma path_bound : forall s mult entry i tr ps sch cache ready out now v m z last,
  valid_setting s -> 0 <= entry -> proper ps -> length ps = length tr ->
  run s cache tr sch = Some (m, z, last) -> tidy out now -> v <= out ->
  (mem i cache = true ->
   below v (omax now (if serves_first s && ready then Some (out - size s i * entry) else None))) ->
  v + earned s mult entry i cache tr ps sch
  <= fst (fold_left (advance (size s i * entry)) (events s mult i ready tr ps) (out, now)).
Proof.
  intros s mult entry i. induction tr as [|x tr IH];
    intros ps sch cache ready out now v m z last V He P L R T Hv B.
  - destruct ps; [|easy]. cbn. lia.
  - destruct ps as [|p ps]; [easy|]. destruct sch as [|c sch]; [easy|]. cbn [run] in R.
    inversion P as [|? ? [P1 P2] P']; subst. cbn [length] in L. injection L as L.
    destruct (update s x c cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy].
    cbn [earned events fold_left]. rewrite U.
    pose proof (size_nonneg s i V) as Sz. pose proof (count_nonneg i (enters c)) as Cn.
    set (fee := size s i * entry) in *. assert (Hf : 0 <= fee) by (unfold fee; nia).
    assert (Hh : 0 <= size s i * slot p) by nia.
    assert (Hg : forall g, gain mult x p i = Some g -> 0 <= g).
    { intros g G. pose proof (worth_nonneg mult x p i) as W. unfold worth in W. now rewrite G in W. }
    pose proof (update_new _ _ _ _ _ i U) as New. unfold at_step, worth.
    assert (Fc : 0 <= fee * count i (enters c)) by nia.
    set (e := Event (if serves_first s then ready else may_enter s x i) (size s i * slot p) (gain mult x p i)).
    destruct (serves_first s) eqn:SF.
    + (* served by the cache before the update *)
      pose proof (advance_step fee e out now (mem i cache) v Hf Hh Hg T Hv B) as A.
      destruct (advance fee (out, now) e) as [out' now'] eqn:Ad. cbn [e hold earns] in A.
      destruct A as (T' & V' & B').
      set (w := v + (if mem i cache then match gain mult x p i with Some g => g | None => 0 end
                     - size s i * slot p else 0)) in *.
      specialize (IH ps sch held (may_enter s x i) out' now' (w - fee * count i (enters c)) m' z' last'
                    V He P' L R' T' ltac:(lia)).
      cbn [andb] in IH. fold fee in IH.
      eapply Z.le_trans; [|apply IH].
      * unfold w. destruct (mem i cache); lia.
      * intros Mh. destruct (New Mh) as [Mc|[C1 My]]; apply below_omax.
        -- left. specialize (B' Mc). destruct now'; cbn in *; lia.
        -- right. rewrite My. cbn. nia.
    + (* served by the cache after the update *)
      cbn [andb] in B. rewrite omax_none in B.
      assert (B1 : mem i held = true ->
                   below (v - fee * count i (enters c)) (omax now (if may e then Some (out - fee) else None))).
      { intros Mh. apply below_omax. destruct (New Mh) as [Mc|[C1 My]].
        - left. specialize (B Mc). destruct now; cbn in *; lia.
        - right. cbn [e may]. rewrite My. cbn. nia. }
      pose proof (advance_step fee e out now (mem i held) (v - fee * count i (enters c))
                    Hf Hh Hg T ltac:(lia) B1) as A.
      destruct (advance fee (out, now) e) as [out' now'] eqn:Ad. cbn [e hold earns] in A.
      destruct A as (T' & V' & B').
      set (w := v - fee * count i (enters c)
                + (if mem i held then match gain mult x p i with Some g => g | None => 0 end
                   - size s i * slot p else 0)) in *.
      specialize (IH ps sch held (may_enter s x i) out' now' w m' z' last' V He P' L R' T' V').
      cbn [andb] in IH. rewrite omax_none in IH. fold fee in IH.
      eapply Z.le_trans; [|now apply IH]. unfold w. destruct (mem i held); lia.
Qed.

(* An item larger than the cache is never held. *)
Lemma too_large : forall s cache i, valid_setting s -> sound s cache -> capacity s < size s i ->
  mem i cache = false.
Proof.
  intros s cache i V (_ & _ & U) H. apply mem_false. intros I.
  rewrite (used_perm s cache (i :: drop i cache) (drop_perm i cache I)) in U. unfold used in U. cbn [map Zsum] in U.
  assert (0 <= Zsum (map (size s) (drop i cache))).
  { apply Zsum_nonneg, Forall_forall. intros z J. apply in_map_iff in J. destruct J as (j & <- & _).
    now apply size_nonneg. }
  lia.
Qed.

Lemma nothing_earned : forall s mult entry i tr ps sch cache m z last, valid_setting s -> 0 <= entry ->
  sound s cache -> capacity s < size s i -> run s cache tr sch = Some (m, z, last) ->
  earned s mult entry i cache tr ps sch <= 0.
Proof.
  intros s mult entry i. induction tr as [|x tr IH]; intros ps sch cache m z last V He S H R; [cbn; lia|].
  destruct ps as [|p ps]; [cbn; lia|]. destruct sch as [|c sch]; [cbn; lia|]. cbn [run] in R. cbn [earned].
  destruct (update s x c cache) as [held|] eqn:U; [|lia].
  destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy].
  destruct (update_sound _ _ _ _ _ V S U) as [S' _].
  specialize (IH ps sch held m' z' last' V He S' H R'). unfold at_step.
  rewrite (too_large s _ i V) by (try assumption; now destruct (serves_first s)).
  pose proof (size_nonneg s i V). pose proof (count_nonneg i (enters c)).
  assert (0 <= size s i * entry * count i (enters c)) by (apply Z.mul_nonneg_nonneg; nia). lia.
Qed.

Lemma events_hold : forall s mult i tr ps ready, valid_setting s -> proper ps ->
  Forall (fun e => 0 <= hold e) (events s mult i ready tr ps).
Proof.
  intros s mult i. induction tr as [|x tr IH]; intros [|p ps] ready V P; cbn [events]; constructor.
  - inversion P as [|? ? [A _] _]; subst. cbn. pose proof (size_nonneg s i V). nia.
  - inversion P; subst. now apply IH.
Qed.

Theorem value_bounds_item : forall s mult entry i tr ps sch m z last,
  valid_setting s -> 0 <= entry -> proper ps -> length ps = length tr ->
  run s [] tr sch = Some (m, z, last) ->
  earned s mult entry i [] tr ps sch <= value s mult entry tr ps i.
Proof.
  intros s mult entry i tr ps sch m z last V He P L R. unfold value.
  destruct (Z.ltb_spec (capacity s) (size s i)) as [H|H].
  - now apply (nothing_earned s mult entry i tr ps sch [] m z last V He (sound_nil s V)).
  - rewrite heaviest_is_best_path by now apply events_hold. unfold best_path.
    apply (path_bound s mult entry i tr ps sch [] false 0 None 0 m z last); try assumption; cbn; try easy; lia.
Qed.

(* ---- the cost of a schedule against what its items earn --------------------------------------------------- *)

Lemma Zsum_add : forall (f g : nat -> Z) l,
  Zsum (map (fun i => f i + g i) l) = Zsum (map f l) + Zsum (map g l).
Proof. induction l as [|x l IH]; cbn [map Zsum]; lia. Qed.

Lemma Zsum_scale : forall (f : nat -> Z) k l, Zsum (map (fun i => k * f i) l) = k * Zsum (map f l).
Proof. induction l as [|x l IH]; cbn [map Zsum]; lia. Qed.

Lemma Zsum_ext : forall (f g : nat -> Z) l, (forall i, In i l -> f i = g i) ->
  Zsum (map f l) = Zsum (map g l).
Proof. intros f g l H. f_equal. now apply map_ext_in. Qed.

Lemma Zsum_le : forall (f g : nat -> Z) l, (forall i, In i l -> f i <= g i) ->
  Zsum (map f l) <= Zsum (map g l).
Proof.
  induction l as [|x l IH]; intros H; cbn [map Zsum]; [lia|]. pose proof (H x (or_introl eq_refl)).
  specialize (IH (fun i I => H i (or_intror I))). lia.
Qed.

Lemma Zsum_at : forall (f : nat -> Z) x n, (x < n)%nat ->
  Zsum (map (fun i => f i * if Nat.eqb i x then 1 else 0) (seq 0 n)) = f x.
Proof.
  intros f x n. induction n as [|n IH]; intros H; [lia|]. rewrite seq_S, map_app, Zsum_app. cbn [map Zsum Nat.add].
  destruct (Nat.eqb_spec n x) as [->|D].
  - rewrite (Zsum_ext _ (fun _ => 0 * 0)).
    + rewrite Zsum_scale. lia.
    + intros i I. apply in_seq in I. destruct (Nat.eqb_spec i x); lia.
  - rewrite IH by lia. lia.
Qed.

(* A sum over the members of a list = a sum over all items, each as often as it occurs. *)
Lemma Zsum_count : forall (f : nat -> Z) n l, Forall (fun x => (x < n)%nat) l ->
  Zsum (map (fun i => f i * count i l) (seq 0 n)) = Zsum (map f l).
Proof.
  intros f n l F. induction F as [|x l H F IH].
  - rewrite (Zsum_ext _ (fun i => 0 * f i)).
    + rewrite Zsum_scale. reflexivity.
    + intros i _. unfold count. cbn. lia.
  - cbn [map Zsum]. rewrite <- IH, <- (Zsum_at f x n H), <- Zsum_add. apply Zsum_ext. intros i _.
    unfold count. cbn [map Zsum]. lia.
Qed.

Lemma count_mem : forall i l, NoDup l -> count i l = if mem i l then 1 else 0.
Proof.
  intros i l N. induction N as [|x l H N IH]; [reflexivity|]. unfold count in *. cbn [map Zsum]. rewrite IH.
  unfold mem in *. cbn [existsb]. destruct (Nat.eqb_spec i x) as [->|D]; cbn [orb]; [|lia].
  fold (mem x l). apply mem_false in H. now rewrite H.
Qed.

Lemma find_entry : forall l e, NoDup (map item l) -> In e l ->
  find (fun f => Nat.eqb (item f) (item e)) l = Some e.
Proof.
  induction l as [|f l IH]; intros e N I; [easy|]. inversion N as [|? ? H N']; subst. cbn [find].
  destruct I as [->|I]; [now rewrite Nat.eqb_refl|]. destruct (Nat.eqb_spec (item f) (item e)) as [E|D].
  - exfalso. apply H. rewrite E. now apply in_map.
  - now apply IH.
Qed.

(* One step: what its miss costs, for any cache that verify lets stand. *)
Lemma step_bound : forall s mult x p cache, covers s = false ->
  valid_setting s -> valid_query s x -> 0 <= mult ->
  0 <= slot p -> 0 <= serve p -> sound s cache ->
  weight x * (full s * mult) - Z.of_nat (top_k s) * serve p - capacity s * slot p
    - Zsum (map (at_step s mult x p cache) (seq 0 (n_items s)))
  <= mult * miss s x cache.
Proof.
  intros s mult x p cache NC V (W & N & _ & _) Hm Hs Ha (ND & FI & U).
  assert (E : Zsum (map (at_step s mult x p cache) (seq 0 (n_items s)))
              = Zsum (map (worth mult x p) cache) - slot p * used s cache).
  { rewrite (Zsum_ext _ (fun i => (worth mult x p i - size s i * slot p) * count i cache)).
    - rewrite Zsum_count by assumption. unfold used. clear.
      induction cache as [|i l IH]; cbn [map Zsum]; [lia|]. rewrite IH. ring.
    - intros i _. rewrite count_mem by assumption. unfold at_step. destruct (mem i cache); lia. }
  rewrite E. destruct (retrieved_ok s x cache N) as (L & NR & In_R).
  assert (G : Zsum (map (worth mult x p) (map item (retrieved s x cache))) <= Zsum (map (worth mult x p) cache)).
  { apply Zsum_incl; [assumption| |].
    - intros i I. apply in_map_iff in I. destruct I as (e & <- & I). now apply In_R.
    - intros i _. apply worth_nonneg. }
  assert (H : weight x * mult * utility s x cache - Z.of_nat (length (retrieved s x cache)) * serve p
              <= Zsum (map (worth mult x p) (map item (retrieved s x cache)))).
  { unfold utility. rewrite NC. assert (All : forall e, In e (retrieved s x cache) ->
      weight x * mult * quality e - serve p <= worth mult x p (item e)).
    { intros e I. destruct (In_R e I) as [R _]. unfold worth, gain.
      rewrite (find_entry (row x) e N R). destruct (Z.ltb_spec 0 (weight x)).
      - pose proof (Z.le_max_r 0 (weight x * (quality e * mult) - serve p)). lia.
      - replace (weight x) with 0 by lia. lia. }
    revert All. generalize (retrieved s x cache). clear.
    induction l as [|e l IH]; intros All; cbn [map Zsum length]; [lia|].
    pose proof (All e (or_introl eq_refl)). specialize (IH (fun f I => All f (or_intror I))).
    rewrite Nat2Z.inj_succ. lia. }
  assert (Z.of_nat (length (retrieved s x cache)) * serve p <= Z.of_nat (top_k s) * serve p) by nia.
  assert (slot p * used s cache <= slot p * capacity s) by nia.
  unfold miss. lia.
Qed.

Lemma enters_in_range : forall s x xs cache held, enter s x xs cache = Some held ->
  Forall (fun i => (i < n_items s)%nat) xs.
Proof.
  induction xs as [|y xs IH]; intros cache held E; constructor; apply enter_cons in E; [tauto|].
  destruct E as (_ & _ & _ & _ & E). now apply (IH _ _ E).
Qed.

Lemma schedule_bound : forall s mult entry tr ps sch cache m z last, covers s = false ->
  valid_setting s -> valid_trace s tr -> 0 <= mult -> 0 <= entry -> proper ps -> length ps = length tr ->
  sound s cache -> run s cache tr sch = Some (m, z, last) ->
  Zsum (map weight tr) * (full s * mult) - Z.of_nat (top_k s) * Zsum (map serve ps)
    - capacity s * Zsum (map slot ps)
    - Zsum (map (fun i => earned s mult entry i cache tr ps sch) (seq 0 (n_items s)))
  <= mult * m + entry * z.
Proof.
  intros s mult entry. induction tr as [|x tr IH]; intros ps sch cache m z last NC V T Hm He P L S R.
  - destruct ps; [|easy]. destruct sch; [|easy]. cbn [run] in R. injection R as <- <- <-.
    rewrite (Zsum_ext _ (fun i => 0 * 0)) by reflexivity. rewrite Zsum_scale. cbn [map Zsum]. lia.
  - destruct ps as [|p ps]; [easy|]. destruct sch as [|c sch]; [easy|]. cbn [run] in R.
    inversion P as [|? ? [P1 P2] P']; subst. inversion T as [|? ? Q T']; subst.
    cbn [length] in L. injection L as L.
    destruct (update s x c cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy]. injection R as <- <- <-.
    destruct (update_sound _ _ _ _ _ V S U) as [S' _].
    specialize (IH ps sch held m' z' last' NC V T' Hm He P' L S' R').
    set (now := if serves_first s then cache else held).
    assert (SN : sound s now) by (unfold now; now destruct (serves_first s)).
    pose proof (step_bound s mult x p now NC V Q Hm P1 P2 SN) as B.
    assert (F : Forall (fun i => (i < n_items s)%nat) (enters c)).
    { unfold update in U. destruct (leave (leaves c) cache) as [rest|]; [|easy]. now apply (enters_in_range _ _ _ _ _ U). }
    pose proof (Zsum_count (size s) (n_items s) (enters c) F) as C.
    assert (E : Zsum (map (fun i => earned s mult entry i cache (x :: tr) (p :: ps) (c :: sch)) (seq 0 (n_items s)))
      = Zsum (map (at_step s mult x p now) (seq 0 (n_items s))) - entry * Zsum (map (size s) (enters c))
        + Zsum (map (fun i => earned s mult entry i held tr ps sch) (seq 0 (n_items s)))).
    { rewrite <- C, <- Z.add_opp_r, <- Z.mul_opp_l, <- Zsum_scale, <- !Zsum_add. apply Zsum_ext. intros i _.
      cbn [earned]. rewrite U. fold now. ring. }
    rewrite E. cbn [map Zsum]. lia.
Qed.

(* ---- weak duality ------------------------------------------------------------------------------------------ *)

(* For any prices >= 0 and entry <= lambda, LB <= the cost of every schedule. LB = bound / (full mult) and
   cost = c / (full q); multiplied by full mult q.                                                          *)
Theorem weak_duality : forall s p q mult entry ps tr sch c, covers s = false ->
  valid_setting s -> valid_trace s tr -> 0 <= mult -> 0 < q -> 0 <= p ->
  proper ps -> length ps = length tr -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  cost s p q tr sch = Some c -> q * bound s mult entry ps tr <= mult * c.
Proof.
  intros s p q mult entry ps tr sch c NC V T Hm Hq Hp P L He Hl E. unfold cost in E.
  destruct (run s [] tr sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
  pose proof (schedule_bound s mult entry tr ps sch [] m z last NC V T Hm He P L (sound_nil s V) R) as B.
  assert (I : Zsum (map (fun i => earned s mult entry i [] tr ps sch) (seq 0 (n_items s)))
              <= Zsum (map (value s mult entry tr ps) (seq 0 (n_items s)))).
  { apply Zsum_le. intros i _. now apply value_bounds_item with m z last. }
  destruct (run_nonneg _ _ _ _ _ _ _ V T R) as [_ Z0].
  assert (Pd : 0 <= paid s z) by (unfold paid; destruct (free_fill s); lia).
  assert (J : q * entry * paid s z <= p * full s * mult * paid s z).
  { apply Z.mul_le_mono_nonneg_r; [assumption|]. lia. }
  assert (K : entry * z - (if free_fill s then capacity s * entry else 0) <= entry * paid s z).
  { unfold paid. destruct (free_fill s); [|lia]. pose proof (Z.le_max_r 0 (z - capacity s)). nia. }
  unfold bound, price.
  set (A := Zsum (map weight tr) * (full s * mult) - Z.of_nat (top_k s) * Zsum (map serve ps)
            - capacity s * Zsum (map slot ps)
            - Zsum (map (value s mult entry tr ps) (seq 0 (n_items s)))) in *.
  assert (A1 : A <= mult * m + entry * z) by (unfold A; lia). clearbody A. clear B I.
  replace (mult * (q * m + p * full s * paid s z)) with (q * (mult * m) + p * full s * mult * paid s z) by ring.
  assert (A2 : (if free_fill s then A - capacity s * entry else A) <= mult * m + entry * paid s z).
  { destruct (free_fill s); lia. }
  apply Z.le_trans with (q * (mult * m + entry * paid s z)); [|lia].
  apply Z.mul_le_mono_nonneg_l; [lia | exact A2].
Qed.

(* Where both numbers of a certificate agree, its schedule is optimal. *)
Theorem tight_is_optimal : forall s p q mult entry ps tr sch c sch' c', covers s = false ->
  valid_setting s -> valid_trace s tr -> 0 < mult -> 0 < q -> 0 <= p ->
  proper ps -> length ps = length tr -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  cost s p q tr sch = Some c -> q * bound s mult entry ps tr = mult * c ->
  cost s p q tr sch' = Some c' -> c <= c'.
Proof.
  intros s p q mult entry ps tr sch c sch' c' NC V T Hm Hq Hp P L He Hl _ E R.
  pose proof (weak_duality s p q mult entry ps tr sch' c' NC V T ltac:(lia) Hq Hp P L He Hl R). nia.
Qed.

(* ---- rounding up to the grid -------------------------------------------------------------------------------- *)

Definition divides (a b : Z) : bool := b mod a =? 0.

(* grid = gn / gd > 0 of cost. *)
Definition check_grid (s : setting) (p q gn gd : Z) (tr : list query) : bool :=
  let unit := gn * full s / Z.gcd (gn * full s) gd in
  let moved := q * gn / Z.gcd (p * gd) (q * gn) in
  divides unit (Zsum (map weight tr) * full s)
  && forallb (fun x => forallb (fun e => divides unit (weight x * quality e)) (row x)) tr
  && forallb (divides moved) (sizes s)
  && (negb (free_fill s) || divides moved (capacity s)).

(* The least multiple of the grid that is >= L / (full mult), counted in grids. *)
Definition rounded (s : setting) (mult gn gd L : Z) : Z := - ((- (L * gd)) / (full s * mult * gn)).

Lemma divides_spec : forall a b, 0 < a -> divides a b = true -> (a | b).
Proof. intros a b H E. apply Z.eqb_eq in E. apply Z.mod_divide; lia. Qed.

Lemma divide_Zsum : forall a l, Forall (fun z => (a | z)) l -> (a | Zsum l).
Proof. intros a l F. induction F; cbn [Zsum]; [apply Z.divide_0_r | now apply Z.divide_add_r]. Qed.

Lemma gcd_pos : forall a b, 0 < b -> 0 < Z.gcd a b /\ (Z.gcd a b | a) /\ (Z.gcd a b | b).
Proof.
  intros a b H. split; [|split; [apply Z.gcd_divide_l | apply Z.gcd_divide_r]].
  pose proof (Z.gcd_nonneg a b). destruct (Z.eq_dec (Z.gcd a b) 0) as [E|E]; [|lia].
  apply Z.gcd_eq_0_r in E. lia.
Qed.

Lemma used_divides : forall s a l, Forall (fun z => (a | z)) (sizes s) -> (a | Zsum (map (size s) l)).
Proof.
  intros s a l F. apply divide_Zsum, Forall_forall. intros z I. apply in_map_iff in I. destruct I as (i & <- & _).
  unfold size. destruct (nth_in_or_default i (sizes s) 0) as [J | ->]; [|apply Z.divide_0_r].
  rewrite Forall_forall in F. now apply F.
Qed.

Lemma run_divides : forall s u v tr sch cache m z last, covers s = false -> valid_trace s tr ->
  Forall (fun x => Forall (fun e => (u | weight x * quality e)) (row x)) tr ->
  Forall (fun y => (v | y)) (sizes s) -> run s cache tr sch = Some (m, z, last) ->
  (u | Zsum (map weight tr) * full s - m) /\ (v | z).
Proof.
  intros s u v. induction tr as [|x tr IH]; intros [|c sch] cache m z last NC T F G R; cbn [run] in R; try easy.
  - injection R as <- <- <-. cbn. split; apply Z.divide_0_r.
  - destruct (update s x c cache) as [held|]; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy]. injection R as <- <- <-.
    inversion T as [|? ? (_ & N & _) T']; subst. inversion F as [|? ? F1 F']; subst.
    destruct (IH sch held m' z' last' NC T' F' G R') as [A B]. split.
    + set (now := if serves_first s then cache else held). cbn [map Zsum].
      replace ((weight x + Zsum (map weight tr)) * full s - (miss s x now + m'))
        with (weight x * utility s x now + (Zsum (map weight tr) * full s - m')) by (unfold miss; ring).
      apply Z.divide_add_r; [|assumption]. unfold utility. rewrite NC.
      destruct (retrieved_ok s x now N) as (_ & _ & I). rewrite Forall_forall in F1.
      assert (All : forall e, In e (retrieved s x now) -> (u | weight x * quality e)).
      { intros e J. apply F1. now apply I. }
      revert All. generalize (retrieved s x now). clear. induction l as [|e l IH]; intros All; cbn [map Zsum].
      * rewrite Z.mul_0_r. apply Z.divide_0_r.
      * rewrite Z.mul_add_distr_l. apply Z.divide_add_r; [apply All; now left | apply IH; intros f J; apply All; now right].
    + apply Z.divide_add_r; [now apply used_divides | assumption].
Qed.

(* If the grid passes, the cost c / (full q) of every schedule is a multiple k of it. *)
Theorem costs_on_grid : forall s p q gn gd tr sch c, covers s = false ->
  valid_trace s tr -> 0 < full s -> 0 < q -> 0 < gn -> 0 < gd ->
  check_grid s p q gn gd tr = true -> cost s p q tr sch = Some c ->
  exists k, c * gd = k * gn * (full s * q).
Proof.
  intros s p q gn gd tr sch c NC T Hf Hq Hn Hd G E. unfold cost in E.
  destruct (run s [] tr sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
  unfold check_grid in G. rewrite !andb_true_iff in G. destruct G as (((G1 & G2) & G3) & G4).
  destruct (gcd_pos (gn * full s) gd Hd) as (H0 & [u Hu] & [d Hd']).
  assert (Hqn : 0 < q * gn) by nia. assert (Hnf : 0 < gn * full s) by nia.
  destruct (gcd_pos (p * gd) (q * gn) Hqn) as (K0 & [a Ha] & [v Hv]).
  set (g1 := Z.gcd (gn * full s) gd) in *. set (g2 := Z.gcd (p * gd) (q * gn)) in *.
  assert (U : gn * full s / g1 = u) by (rewrite Hu; apply Z.div_mul; lia).
  assert (W : q * gn / g2 = v) by (rewrite Hv; apply Z.div_mul; lia).
  rewrite U, W in *. clearbody g1 g2. assert (0 < u) by nia. assert (0 < v) by nia.
  destruct (run_divides s u v tr sch [] m z last NC T) as [D1 D2]; [| |exact R|].
  - apply Forall_forall. intros x X. rewrite forallb_forall in G2. specialize (G2 x X).
    rewrite forallb_forall in G2. apply Forall_forall. intros e I. now apply divides_spec, G2.
  - rewrite forallb_forall in G3. apply Forall_forall. intros y Y. now apply divides_spec, G3.
  - apply divides_spec in G1; [|assumption].
    assert (M : (u | m)).
    { replace m with (Zsum (map weight tr) * full s - (Zsum (map weight tr) * full s - m)) by ring.
      now apply Z.divide_sub_r. }
    assert (Pz : (v | paid s z)).
    { unfold paid. destruct (free_fill s); [|assumption]. cbn [negb orb] in G4. apply divides_spec in G4; [|assumption].
      destruct (Z.max_spec 0 (z - capacity s)) as [[_ ->]|[_ ->]]; [now apply Z.divide_sub_r | apply Z.divide_0_r]. }
    destruct M as [j Hj]. destruct Pz as [l Hl]. unfold price. exists (d * j + a * l).
    rewrite Hj, Hl.
    assert (X1 : u * gd = d * (gn * full s)) by (rewrite Hu, Hd'; ring).
    assert (X2 : v * (p * gd) = a * (q * gn)) by (rewrite Ha, Hv; ring).
    transitivity (q * j * (u * gd) + full s * l * (v * (p * gd))); [ring|]. rewrite X1, X2. ring.
Qed.

(* Rounding LB = L / (full mult) up to the grid keeps it a lower bound of every cost on the grid. *)
Theorem rounding_is_sound : forall s p q mult entry ps gn gd tr sch c, covers s = false ->
  valid_setting s -> valid_trace s tr -> 0 < full s -> 0 < mult -> 0 < q -> 0 <= p ->
  proper ps -> length ps = length tr -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  0 < gn -> 0 < gd -> check_grid s p q gn gd tr = true -> cost s p q tr sch = Some c ->
  rounded s mult gn gd (bound s mult entry ps tr) * gn * (full s * q) <= c * gd.
Proof.
  intros s p q mult entry ps gn gd tr sch c NC V T Hf Hm Hq Hp P L He Hl Hn Hd G E.
  destruct (costs_on_grid s p q gn gd tr sch c NC T Hf Hq Hn Hd G E) as [k K].
  pose proof (weak_duality s p q mult entry ps tr sch c NC V T ltac:(lia) Hq Hp P L He Hl E) as B.
  set (lb := bound s mult entry ps tr) in *. clearbody lb. rewrite K.
  apply Z.mul_le_mono_nonneg_r; [nia|]. apply Z.mul_le_mono_nonneg_r; [lia|]. unfold rounded.
  assert (S1 : 0 < full s * mult * gn) by (apply Z.mul_pos_pos; nia).
  assert (B1 : q * (lb * gd) <= q * (k * (full s * mult * gn))).
  { replace (q * (lb * gd)) with (q * lb * gd) by ring.
    replace (q * (k * (full s * mult * gn))) with (mult * (k * gn * (full s * q))) by ring. rewrite <- K. nia. }
  assert (B2 : lb * gd <= k * (full s * mult * gn)) by nia.
  assert (- k <= - (lb * gd) / (full s * mult * gn)); [|lia].
  apply Z.div_le_lower_bound; [assumption|]. lia.
Qed.

Print Assumptions heaviest_is_best_path.
Print Assumptions value_bounds_item.
Print Assumptions weak_duality.
Print Assumptions tight_is_optimal.
Print Assumptions costs_on_grid.
Print Assumptions rounding_is_sound.
